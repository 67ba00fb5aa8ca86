"""ax.limits against small modules that stand for the frameworks."""
import contextlib
import os
import subprocess
import sys
import types
import unittest
import warnings
from unittest import mock

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, PACKAGE)

import ax.limits  # noqa: E402

SLICE = {"AX_GPU_ENFORCE": "env", "AX_GPU_MEM_MB": "20000", "AX_GPU_POOL_MB": "19488"}


class Torch(types.ModuleType):
    """Two cards, of 80000 and 10000 MB."""

    def __init__(self):
        super().__init__("torch")
        self.set = {}
        sizes = [80000, 10000]
        self.cuda = types.SimpleNamespace(
            device_count=lambda: len(sizes),
            get_device_properties=lambda card: types.SimpleNamespace(total_memory=sizes[card] * 2**20),
            set_per_process_memory_fraction=lambda part, card: self.set.__setitem__(card, part))


class TensorFlow(types.ModuleType):
    def __init__(self, begun=False):
        super().__init__("tensorflow")
        self.set = []

        def configure(card, parts):
            if begun:
                raise RuntimeError("Virtual devices cannot be modified after being initialized")
            self.set.append((card, [part.memory_limit for part in parts]))

        self.config = types.SimpleNamespace(
            list_physical_devices=lambda kind: ["a", "b"] if kind == "GPU" else [],
            set_logical_device_configuration=configure,
            LogicalDeviceConfiguration=lambda memory_limit: types.SimpleNamespace(memory_limit=memory_limit))


class CuPy(types.ModuleType):
    def __init__(self):
        super().__init__("cupy")
        self.set, self.card = {}, 0

        @contextlib.contextmanager
        def device(card):
            self.card = card
            yield

        self.cuda = types.SimpleNamespace(
            runtime=types.SimpleNamespace(getDeviceCount=lambda: 2), Device=device)
        pool = types.SimpleNamespace(set_limit=lambda size: self.set.__setitem__(self.card, size))
        self.get_default_memory_pool = lambda: pool


def applied(environ, *modules):
    """What apply() returns and warns of, in this environment and with only these frameworks imported."""
    names = ("torch", "tensorflow", "cupy", "jax")
    known = {name: None for name in names} | {module.__name__: module for module in modules}
    with mock.patch.dict(os.environ, environ, clear=True), mock.patch.dict(sys.modules, known):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            done = ax.limits.apply()
    return done, [str(warning.message) for warning in caught]


class Limits(unittest.TestCase):
    def test_torch_gets_the_share_of_each_card(self):
        torch = Torch()
        self.assertEqual(applied(SLICE, torch), (["torch: 19488 MB on each of 2 cards"], []))
        self.assertEqual(torch.set, {0: 19488 / 80000, 1: 1.0})

    def test_tensorflow_gets_logical_devices(self):
        tensorflow = TensorFlow()
        applied(SLICE, tensorflow)
        self.assertEqual(tensorflow.set, [("a", [19488]), ("b", [19488])])

    def test_cupy_gets_bytes_for_each_card(self):
        cupy = CuPy()
        applied(SLICE, cupy)
        self.assertEqual(cupy.set, {0: 19488 * 2**20, 1: 19488 * 2**20})

    def test_what_comes_too_late_is_said_and_ends_nothing(self):
        torch = Torch()
        done, warned = applied(SLICE, TensorFlow(begun=True), torch, types.ModuleType("jax"))
        self.assertEqual(torch.set[0], 19488 / 80000)
        self.assertEqual(len(warned), 2, warned)
        self.assertIn("tensorflow is not limited: Virtual devices cannot be modified", warned[0])
        self.assertIn("jax is not limited: too late", warned[1])
        self.assertEqual([line.split(":")[0] for line in done], ["torch", "tensorflow", "jax"])

    def test_jax_has_its_variables(self):
        for name in ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"):
            done, warned = applied(SLICE | {name: "0.2436"}, types.ModuleType("jax"))
            self.assertEqual((done, warned), ([f"jax: {name}=0.2436"], []))

    def test_nothing_is_done_where_nothing_is_to_be_kept_to(self):
        for environ in ({}, SLICE | {"AX_GPU_ENFORCE": ""}, SLICE | {"AX_GPU_ENFORCE": "driver"},
                        SLICE | {"AX_GPU_MEM_MB": "", "AX_GPU_POOL_MB": ""}, SLICE | {"AX_GPU_POOL_MB": "much"}):
            torch = Torch()
            self.assertEqual(applied(environ, torch), ([], []), environ)
            self.assertEqual(torch.set, {})

    def test_without_hints_the_slice_itself_counts(self):
        environ = {"AX_GPU_ENFORCE": "watch", "AX_GPU_MEM_MB": "20000"}
        self.assertEqual(applied(environ, Torch())[0], ["torch: 20000 MB on each of 2 cards"])

    def test_nothing_is_imported(self):
        code = "import sys, ax.limits; before = set(sys.modules); ax.limits.apply(); assert set(sys.modules) == before"
        subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {PACKAGE!r}); {code}"],
                       env=SLICE, check=True)


if __name__ == "__main__":
    unittest.main()
