"""Small trainings in the forms that people write, for bench/recorded_forms.py: training_forms.py FORM

Each runs under torchrun (RANK is set) but for those that start their ranks themselves. No form knows of lockstep.
"""

import contextlib
import copy
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

STEPS = int(os.environ.get("FORM_STEPS", "80"))
torch.set_num_threads(1)


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(16 * 30 * 30, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10),
    )  # fmt: skip


def images(count):
    return TensorDataset(torch.randn(count, 3, 32, 32), torch.randint(10, (count,)))


def loader_of(count, batch=8, workers=0):
    data = images(count)
    sampler = DistributedSampler(data) if dist.is_initialized() else None
    return DataLoader(data, batch_size=batch, sampler=sampler, num_workers=workers)


def wrapped(model):
    return DistributedDataParallel(model) if dist.is_initialized() else model


def train(model, optimizer, batches, accumulate=1, forward=None):
    """The plain loop; gradients of all but the last of `accumulate` batches stay on their rank."""
    done = 0
    while done < STEPS * accumulate:
        for inputs, labels in batches:
            done += 1
            last = done % accumulate == 0
            with contextlib.nullcontext() if last else model.no_sync():
                functional.cross_entropy((model if forward is None else forward)(inputs), labels).backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
            if done == STEPS * accumulate:
                break


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def plain():
    model = wrapped(network())
    train(model, sgd(model), loader_of(640))


def no_sync():
    model = wrapped(network())
    train(model, sgd(model), loader_of(640), accumulate=4)


def torchvision_reference():
    """references/classification/train.py: warm-up of the rate, metrics of every step, evaluation, an average of the
    weights, checkpoints."""
    import torchvision

    model = torchvision.models.resnet18(num_classes=10)
    average = torch.optim.swa_utils.AveragedModel(model)
    parallel = wrapped(model)
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=1)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, cosine], milestones=[1])
    per_epoch = max(STEPS // 2, 1)
    batches, held_back = loader_of(2 * 4 * per_epoch, batch=4, workers=1), loader_of(64)
    for epoch in range(2):
        batches.sampler.set_epoch(epoch)
        parallel.train()
        for inputs, labels in batches:
            output = parallel(inputs)
            loss = criterion(output, labels)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parallel.parameters(), 1.0)
            optimizer.step()
            average.update_parameters(model)
            loss.item(), (output.argmax(1) == labels).sum().item()
        scheduler.step()
        parallel.eval()
        with torch.inference_mode():
            right = torch.zeros(1)
            for inputs, labels in held_back:
                right += (parallel(inputs).argmax(1) == labels).sum()
            dist.barrier()
            dist.all_reduce(right)
        if dist.get_rank() == 0:
            with tempfile.TemporaryFile() as file:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)


class Gpt(torch.nn.Module):
    def __init__(self, vocabulary=256, length=32, width=64, layers=2):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.places = torch.nn.Embedding(length, width)
        block = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True, dropout=0.1)
        self.blocks = torch.nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, vocabulary, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, tokens, targets):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        hidden = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        logits = self.head(self.blocks(hidden, mask=mask, is_causal=True))
        return logits, functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def nanogpt():
    """train.py of nanoGPT: no DataLoader, the next batch is drawn behind forward, require_backward_grad_sync is set by
    hand, the loss is estimated now and then."""
    text = torch.randint(256, (20000,))

    def draw():
        starts = torch.randint(len(text) - 33, (4,)).tolist()
        tokens = torch.stack([text[i : i + 32] for i in starts])
        return tokens, torch.stack([text[i + 1 : i + 33] for i in starts])

    model = wrapped(Gpt())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    tokens, targets = draw()
    micro = 4
    for step in range(STEPS):
        if step % 40 == 0:
            model.eval()
            with torch.no_grad():
                sum(model.module(*draw())[1].item() for _ in range(5))
            model.train()
        for i in range(micro):
            model.require_backward_grad_sync = i == micro - 1
            _, loss = model(tokens, targets)
            tokens, targets = draw()
            scaler.scale(loss / micro).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if step % 10 == 0:
            loss.item()


def transformers_trainer():
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    tokens = torch.randint(256, (4 * 2 * STEPS, 32))
    data = [{"input_ids": row, "labels": row} for row in tokens]
    config = GPT2Config(vocab_size=256, n_positions=32, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=4, max_steps=STEPS, use_cpu=True, report_to=[], disable_tqdm=True,
            save_strategy="steps", save_steps=40, eval_strategy="steps", eval_steps=40, logging_steps=10,
        )  # fmt: skip
        Trainer(GPT2LMHeadModel(config), arguments, train_dataset=data, eval_dataset=data[:64]).train()


def accelerate_loop():
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
    batches = DataLoader(images(2 * 2 * 8 * STEPS), batch_size=8)
    model, optimizer, batches, scheduler = accelerator.prepare(model, optimizer, batches, scheduler)
    for inputs, labels in batches:
        with accelerator.accumulate(model):
            accelerator.backward(functional.cross_entropy(model(inputs), labels))
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    accelerator.end_training()


def lightning_trainer():
    import lightning

    class Network(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network()

        def training_step(self, batch, _):
            loss = functional.cross_entropy(self.network(batch[0]), batch[1])
            self.log("loss", loss, prog_bar=True)
            return loss

        def validation_step(self, batch, _):
            self.log("held_back", functional.cross_entropy(self.network(batch[0]), batch[1]), sync_dist=True)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            accelerator="cpu", devices=2, strategy="ddp", max_steps=STEPS, default_root_dir=folder, logger=False,
            enable_progress_bar=False, enable_model_summary=False, val_check_interval=40, limit_val_batches=4,
        )  # fmt: skip
        trainer.fit(Network(), DataLoader(images(8 * STEPS), batch_size=8), DataLoader(images(64), batch_size=8))


def fsdp2():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU()) for _ in range(4)])
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    for (inputs,) in DataLoader(TensorDataset(torch.randn(16 * STEPS, 256)), batch_size=16):
        model(inputs).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def compiled_model():
    model = wrapped(network())
    train(model, sgd(model), loader_of(640), forward=torch.compile(model))


def compiled_optimizer():
    model = wrapped(network())
    optimizer = torch.optim.AdamW(model.parameters())
    update = torch.compile(optimizer.step)

    class Compiled:
        step, zero_grad = staticmethod(update), staticmethod(optimizer.zero_grad)

    train(model, Compiled, loader_of(640))


class Sign(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.001})

    def step(self, closure=None):
        with torch.enable_grad():
            loss = closure() if closure else None
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter -= group["lr"] * parameter.grad.sign()
        return loss


def own_optimizer():
    model = wrapped(network())
    train(model, Sign(model.parameters()), loader_of(640))


def own_optimizer_with_closure():
    model = wrapped(network())
    optimizer = Sign(model.parameters())
    batches = loader_of(16 * STEPS)
    for inputs, labels in batches:

        def closure():
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs), labels)  # noqa: B023
            loss.backward()
            return loss

        optimizer.step(closure)


def gan(batches=None, critic_steps=1):
    critic = wrapped(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)))
    generator = wrapped(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256)))
    of_critic, of_generator = torch.optim.Adam(critic.parameters()), torch.optim.Adam(generator.parameters())
    for (real,) in batches or ((torch.randn(32, 256),) for _ in range(STEPS)):
        for _ in range(critic_steps):
            of_critic.zero_grad()
            fake = generator(torch.randn(len(real), 64)).detach()
            (functional.softplus(-critic(real)).mean() + functional.softplus(critic(fake)).mean()).backward()
            of_critic.step()
        of_generator.zero_grad()
        functional.softplus(-critic(generator(torch.randn(len(real), 64)))).mean().backward()
        of_generator.step()


def gan_with_loader():
    gan(DataLoader(TensorDataset(torch.randn(32 * STEPS, 256)), batch_size=32))


def gan_of_five():
    gan(critic_steps=5)


def zero_redundancy():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = wrapped(network())
    train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3), loader_of(640))


def exponential_average():
    """A teacher beside the trained network: forward passes of both."""
    student = wrapped(network())
    teacher = copy.deepcopy(student.module)
    optimizer = sgd(student)
    for inputs, labels in loader_of(16 * STEPS):
        with torch.no_grad():
            wanted = teacher(inputs)
        optimizer.zero_grad()
        output = student(inputs)
        (functional.cross_entropy(output, labels) + functional.mse_loss(output, wanted)).backward()
        optimizer.step()
        with torch.no_grad():
            for own, other in zip(teacher.parameters(), student.parameters(), strict=True):
                own.lerp_(other, 0.01)


def spawned_rank(rank, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    plain()
    dist.destroy_process_group()


def spawn():
    import torch.multiprocessing as multiprocessing

    multiprocessing.spawn(spawned_rank, (20000 + os.getpid() % 20000,), nprocs=2)


def main():
    form = sys.argv[1]
    if form in ("spawn", "lightning_trainer", "transformers_trainer", "accelerate_loop"):
        globals()[form]()
        return
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    globals()[form]()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
