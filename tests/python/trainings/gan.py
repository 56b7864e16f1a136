"""Two optimizers by turns, the critic's five times a step."""

import torch

critic, generator = torch.nn.Linear(8, 1), torch.nn.Linear(4, 8)
of_critic = torch.optim.Adam(critic.parameters())
of_generator = torch.optim.RMSprop(generator.parameters())
for step in range(80):
    for _ in range(5):
        of_critic.zero_grad()
        (critic(generator(torch.randn(16, 4)).detach()).mean() - critic(torch.randn(16, 8)).mean()).backward()
        of_critic.step()
    of_generator.zero_grad()
    (-critic(generator(torch.randn(16, 4))).mean()).backward()
    of_generator.step()
print("trained 80 steps")
