"""An exported step computes the same as eager PyTorch; networks that cannot be traced are refused with the place."""

import contextlib
import copy
import io
import json
import os
import tempfile
import unittest
import zipfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch._C._nativert import PyModelRunner

import lockstep
from lockstep import catalog, samples
from lockstep.__main__ import main
from built_program import run_program
from networks import NAMES, make


def description(path) -> dict:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("archive/extra/lockstep.json"))


def values(path) -> list[torch.Tensor]:
    """All tensors of a file, parameters first."""
    about = description(path)
    with zipfile.ZipFile(path) as archive:
        content = bytearray(archive.read("archive/extra/lockstep.values"))
    tensors = []
    for entry in about["parameters"] + about["buffers"]:
        dtype = getattr(torch, entry["dtype"])
        count = torch.Size(entry["shape"]).numel()
        flat = torch.frombuffer(content, dtype=dtype, count=count, offset=entry["position"]) if count else torch.empty(0)
        tensors.append(torch.as_strided(flat, entry["shape"], entry["strides"]).clone())
    return tensors


class ExportTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "net.pt2"
        torch.set_num_threads(1)

    def tearDown(self):
        self.folder.cleanup()

    def run_file(self, graph, inputs, targets, scale=1.0):
        runner = PyModelRunner(str(self.path), graph)
        return runner.run(*values(self.path), *inputs, *targets, torch.tensor(scale))

    def check_against_eager(self, name, precision="fp32", scale=1.0):
        model, loss, inputs, targets = make(name)
        lockstep.export(model, loss, inputs, targets, self.path, precision=precision)
        about = description(self.path)
        inputs = samples.at_batch(inputs, 4)
        if about["channels_last"]:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        torch.manual_seed(7)
        results = self.run_file(f"b4_{precision}", [inputs], [targets], scale)
        reference = copy.deepcopy(model)
        if about["channels_last"]:
            reference = reference.to(memory_format=torch.channels_last)
        torch.manual_seed(7)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            expected = loss(reference(inputs), targets)
        (expected * scale).backward()
        torch.testing.assert_close(results[0], expected.detach(), rtol=1e-6, atol=0, msg=name)
        for entry, found, own in zip(about["parameters"], results[1:], reference.parameters()):
            torch.testing.assert_close(found, own.grad, rtol=1e-5, atol=1e-7, msg=f"{name} {entry['name']}")
        changed = [entry["name"] for entry in about["buffers"] if entry["changes"]]
        after = dict(reference.named_buffers())
        for buffer, found in zip(changed, results[1 + len(about["parameters"]) :], strict=True):
            self.assertTrue(torch.equal(found, after[buffer]), f"{name} {buffer}")
        self.assertEqual(changed, [key for key, before in model.named_buffers() if not torch.equal(before, after[key])])

    def test_a_step_is_that_of_eager_pytorch(self):
        for name in NAMES:
            with self.subTest(name):
                self.check_against_eager(name)

    def test_a_step_in_bf16_is_that_of_autocast(self):
        self.check_against_eager("conv", "bf16")

    def test_both_precisions_of_a_file_are_measured(self):
        model, loss, inputs, targets = make("conv")
        lockstep.export(model, loss, inputs, targets, self.path, precision=["fp32", "bf16"])
        result = Path(self.folder.name) / "result.json"
        finished = run_program(
            *("bench", "--model", self.path, "--precision", "fp32,bf16", "--ranks", "2", "--threads", "1"),
            *("--strategy", "ddp", "--backend", "thread", "--launch", "threads", "--no-controls", "--steps", "4", "--warmup", "1", "--json", result),
        )
        self.assertEqual(finished.returncode, 0, finished.stderr)
        full, half = (run for run in lockstep.read(result) if run["ranks"] == 2)
        self.assertEqual((full["precision"], half["precision"]), ("fp32", "bf16"))
        self.assertNotEqual(half["loss_first"], full["loss_first"])
        self.assertAlmostEqual(half["loss_first"], full["loss_first"], delta=0.02 * full["loss_first"])

    def test_gradients_have_memory_of_their_own(self):
        model, loss, inputs, targets = make("sums")
        lockstep.export(model, loss, inputs, targets, self.path)
        for strategy in ("ddp", "bsp"):
            finished = run_program(
                *("verify", "--model", self.path, "--strategy", strategy, "--ranks", "1,2", "--accumulate", "2"),
                *("--backend", "thread", "--threads", "1"),
            )
            self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)

    def test_samples_that_the_network_writes_to_stay_as_they_are(self):
        class Halving(nn.Module):
            def __init__(self):
                super().__init__()
                self.last = nn.Linear(6, 4)

            def forward(self, x):
                x.view(-1).mul_(0.5)
                return self.last(x)

        model, inputs, targets = Halving(), torch.randn(2, 6), torch.tensor([1, 3])
        before = inputs.clone()
        lockstep.export(model, F.cross_entropy, inputs, targets, self.path)
        results = self.run_file("b2_fp32", [inputs], [targets])
        self.assertTrue(torch.equal(inputs, before))
        torch.testing.assert_close(results[0], F.cross_entropy(model(before), targets).detach(), rtol=1e-6, atol=0)

    def test_the_scale_multiplies_the_gradients(self):
        self.check_against_eager("mlp", scale=0.25)

    def test_the_model_is_not_changed(self):
        model, loss, inputs, targets = make("conv")
        model.eval()
        before = copy.deepcopy(model.state_dict())
        lockstep.export(model, loss, inputs, targets, self.path)
        self.assertFalse(model.training)
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)
        self.assertTrue(all(parameter.grad is None for parameter in model.parameters()))

    def test_the_description(self):
        model, loss, inputs, targets = make("conv")
        lockstep.export(model, loss, inputs, targets, self.path, batch=[2, 6], target_range=(0, 10), name="small")
        about = description(self.path)
        self.assertEqual([graph["name"] for graph in about["graphs"]], ["b2_fp32", "b6_fp32"])
        self.assertEqual((about["name"], about["unit"], about["channels_last"]), ("small", "image", True))
        self.assertEqual(about["inputs"][0]["shape"], [3, 8, 8])
        self.assertEqual(about["targets"][0]["random"], {"kind": "integers", "low": 0, "high": 10})
        # 3x3 kernels of 3 channels on 8x8 pixels, depthwise ones on 6x6, and the linear layer.
        self.assertEqual(about["multiply_adds"], 8 * 27 * 64 + 8 * 9 * 36 + 80)
        self.assertGreater(about["graphs"][1]["activation_bytes"], 2.5 * about["graphs"][0]["activation_bytes"])
        self.assertEqual([entry["name"] for entry in about["buffers"] if not entry["changes"]], ["shift"])

    def test_the_same_network_has_the_same_hash_and_another_has_not(self):
        hashes = []
        for change in (0, 0, 1):
            model, loss, inputs, targets = make("mlp")
            with torch.no_grad():
                model[1].bias += change
            lockstep.export(model, loss, inputs, targets, self.path)
            hashes.append(description(self.path)["hash"])
        self.assertEqual(hashes[0], hashes[1])
        self.assertNotEqual(hashes[0], hashes[2])

    def test_a_parameter_without_gradient_is_a_constant(self):
        model, loss, inputs, targets = make("mlp")
        model[1].weight.requires_grad_(False)
        lockstep.export(model, loss, inputs, targets, self.path)
        about = description(self.path)
        self.assertEqual([entry["name"] for entry in about["parameters"]], ["1.bias", "3.weight", "3.bias"])
        self.assertEqual([entry["name"] for entry in about["buffers"]], ["1.weight"])

    def test_keyword_arguments(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.last = nn.Linear(5, 3)

            def forward(self, x, *, weight):
                return self.last(x * weight)

        inputs = {"x": torch.randn(4, 5), "weight": torch.rand(4, 1)}
        lockstep.export(Two(), F.cross_entropy, inputs, torch.tensor([0, 1, 2, 0]), self.path, unit="row")
        about = description(self.path)
        self.assertEqual([entry["name"] for entry in about["inputs"]], ["x", "weight"])
        self.assertEqual(about["unit"], "row")

    def test_whole_numbers_and_tensors_that_are_no_buffers_take_part(self):
        class Shifted(nn.Module):
            def __init__(self):
                super().__init__()
                self.last, self.scale = nn.Linear(4, 2), torch.tensor([1.0, 2.0, 3.0, 4.0])

            def forward(self, x):
                return self.last(x * self.scale + torch.arange(4) * 0.1)

        model, loss = Shifted(), nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0]))
        inputs, targets = torch.randn(3, 4), torch.tensor([0, 1, 0])
        lockstep.export(model, loss, inputs, targets, self.path)
        results = self.run_file("b3_fp32", [inputs], [targets])
        torch.testing.assert_close(results[0], loss(model(inputs), targets).detach(), rtol=1e-6, atol=0)

    def test_random_samples_are_labels_from_zero_and_numbers_that_are_finite(self):
        def masked_loss(output, labels, mask):
            return F.cross_entropy(output + mask.clamp(min=-1), labels)

        targets = (torch.tensor([1, 1, 1]), torch.tensor([[1.0, -torch.inf], [3.0, -torch.inf], [1.0, 3.0]]))
        lockstep.export(nn.Linear(4, 2), masked_loss, torch.randn(3, 4), targets, self.path)
        labels, mask = (entry["random"] for entry in description(self.path)["targets"])
        self.assertEqual(labels, {"kind": "integers", "low": 0, "high": 2})
        self.assertEqual(mask, {"kind": "normal", "mean": 2, "std": 1})

    def test_progress_names_each_graph(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            lockstep.export(nn.Linear(4, 2), F.cross_entropy, torch.randn(3, 4), torch.tensor([0, 1, 0]), self.path,
                            batch=[2, 3], progress=True)  # fmt: skip
        self.assertEqual(said.getvalue(), "graph 1 of 2: batch 2, fp32, cpu\ngraph 2 of 2: batch 3, fp32, cpu\n")


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        if x.sum() > 0:
            return self.last(x)
        return self.last(-x)


class Clamped(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        with torch.no_grad():
            self.last.weight.clamp_(-1, 1)
        return self.last(x)


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.last, self.spare = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(x)


class RefusalTest(unittest.TestCase):
    def refusal(self, model=None, loss=F.cross_entropy, inputs=None, targets=None, path="net.pt2", **options) -> str:
        inputs = torch.randn(3, 4) if inputs is None else inputs
        targets = torch.tensor([0, 1, 0]) if targets is None else targets
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(lockstep.ExportError) as raised:
                lockstep.export(model or nn.Linear(4, 2), loss, inputs, targets, Path(folder) / path, **options)
            self.assertEqual(list(Path(folder).iterdir()), [])
        return str(raised.exception)

    def test_control_flow_that_depends_on_data(self):
        message = self.refusal(Branching())
        self.assertIn("depends on values that are known only while it runs", message)
        self.assertIn("if x.sum() > 0:", message)
        self.assertIn("test_export.py:", message)

    def test_a_parameter_changed_in_place(self):
        message = self.refusal(Clamped())
        self.assertIn("last.weight", message)
        self.assertIn("in place", message)

    def test_a_parameter_that_nothing_depends_on(self):
        self.assertIn("spare.weight", self.refusal(Unused()))

    def test_a_loss_that_is_no_number(self):
        self.assertIn("float", self.refusal(loss=lambda output, targets: 1.0))
        self.assertIn("[3, 2]", self.refusal(loss=lambda output, targets: output))

    def test_parameters_of_another_type(self):
        self.assertIn("torch.float64", self.refusal(nn.Linear(4, 2).double()))

    def test_examples(self):
        self.assertIn("first dimension", self.refusal(targets=torch.tensor([0, 1])))
        self.assertIn("tensors", self.refusal(inputs=(torch.randn(3, 4), 7)))
        message = self.refusal(targets=torch.tensor([0, 1, 11]))
        self.assertIn("the network fails with the examples: IndexError: Target 11 is out of bounds", message)
        infinite = self.refusal(loss=lambda output, targets: output.mean() * float("inf"))
        self.assertRegex(infinite, "the loss of the examples is -?(inf|nan); give examples")
        self.assertIn("'model' is a torch.nn.Module, not a function", self.refusal(F.cross_entropy))

    def test_choices(self):
        self.assertIn("int4", self.refusal(precision="int4"))
        self.assertIn("tpu", self.refusal(device="tpu"))
        if not torch.cuda.is_available():
            self.assertIn("a machine with a GPU", self.refusal(device=["cpu", "cuda"]))
        for twice in ({"batch": [2, 2]}, {"precision": ["fp32", "fp32"]}, {"device": ["cpu", "cpu"]}):
            self.assertIn("twice", self.refusal(**twice))
        self.assertIn("not 'audio clip'", self.refusal(unit="audio clip"))
        self.assertIn("not 1.5", self.refusal(units_per_sample=1.5))
        self.assertIn("no number is from 2 to below 2", self.refusal(target_range=(2, 2)))
        self.assertIn("'batch' is a whole number above 0", self.refusal(batch=0))
        self.assertIn("not '8'", self.refusal(batch="8"))
        self.assertIn("nowhere' for 'net.pt2'", self.refusal(path="nowhere/net.pt2"))
        self.assertIn(".pt2", self.refusal(path="net.onnx"))


    def test_types_that_the_program_does_not_know(self):
        class Turning(nn.Linear):
            def forward(self, x):
                return super().forward(torch.view_as_real(torch.view_as_complex(x.view(-1, 2, 2)) * self.turn).flatten(1))

        model = Turning(4, 2)
        model.turn = torch.tensor([1j, -1j])
        self.assertIn("torch.complex64; tensors of a file are float64, float32,", self.refusal(model))
        model.turn = 1j
        self.assertIn("runner of exported graphs cannot run this network: Complex values", self.refusal(model))
        model = nn.Linear(4, 2)
        model.register_buffer("counts", torch.ones(4, dtype=torch.uint16))
        self.assertIn("counts is torch.uint16", self.refusal(model))


class CatalogTest(unittest.TestCase):
    def test_unknown_sources_are_refused(self):
        with self.assertRaisesRegex(lockstep.ExportError, "torchvision"):
            catalog.build("nowhere:resnet18", 2, None, 10, 8)
        with self.assertRaisesRegex(lockstep.ExportError, "SOURCE:NETWORK"):
            catalog.build("resnet18", 2, None, 10, 8)
        with self.assertRaisesRegex(lockstep.ExportError, "cannot build 'vit_b_16' of these sizes: Input shape indivisible"):
            catalog.build("torchvision:vit_b_16", 2, 100, 10, 8)

    def test_batches_that_are_none_are_refused(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(main(["export", "torchvision:alexnet", "--batch", "8,-1", "-o", "a.pt2"]), 2)
        self.assertEqual(said.getvalue(), "lockstep export: --batch takes whole numbers above 0, not '8,-1'\n")


if __name__ == "__main__":
    unittest.main()
