"""The inside of a student's process: it imports their modules, answers calls, and knows no expected value.

Whatever this file says may be forged by the code that it runs, so its answers are data to compare and text to show.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import linecache
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ..finder import Finder
from ..trouble import shapes_at
from . import chance, rules, wire
from .packing import is_tensor, pack

MAX_FRAMES = 20
MOST_BESIDE = 1 << 20  # bytes that are sent unasked
MAX_GRAPHS = 64  # results whose gradients can still be asked for
_MEMORY = ("CUDA out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_REFUSED = {
    event: what
    for what, events in {
        "start other processes": "subprocess.Popen os.system os.fork os.forkpty os.posix_spawn os.spawn os.exec",
        "use the network": "socket.__new__ socket.connect socket.bind socket.getaddrinfo",
        "change files": "os.mkdir os.remove os.rename os.rmdir os.symlink os.link os.chmod os.chown os.truncate os.utime"
        " tempfile.mkstemp tempfile.mkdtemp",
    }.items()
    for event in events.split()
}  # audit events


class MissingError(AttributeError):
    """The student's module has no such function."""


class Child:
    """One student's modules, the objects made from them, and the graphs of their results."""

    def __init__(self, sources: Mapping[str, bytes], reply_bytes: int) -> None:
        self.reply_bytes = reply_bytes
        self.modules: dict[str, ModuleType] = {}
        self.objects: list[Any] = []
        self.graphs: dict[int, tuple[list[Any], list[Any]]] = {}
        self.results = 0
        self.finder = Finder(sources)
        self.files = self.finder.files
        sys.meta_path.insert(0, self.finder)

    def answer(self, request: wire.Unpacked) -> bytes:
        """The frame that answers one request: a value, or what went wrong in the student's code."""
        message = request.message
        head = {"ticket": message["ticket"]}
        try:
            operation: Callable[[wire.Unpacked], dict[str, Any]] = getattr(self, f"do_{message['op']}")
            return self._packed({**head, "ok": True}, operation(request))
        except wire.WireError as error:
            return pack({**head, "ok": False, "kind": "malformed", "text": str(error)}).frame
        except BaseException as error:
            return pack({**head, "ok": False, **self.describe(error)}).frame
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()

    def _packed(self, head: dict[str, Any], result: dict[str, Any]) -> bytes:
        """Pack the answer; when gradients may be asked for, remember the tensors that went into it."""
        wrt = result.pop("wrt", [])
        self.results += 1
        packed = pack({**head, **result, "token": self.results if wrt else None}, self.reply_bytes)
        outputs = [array for array in packed.arrays if is_tensor(array) and array.requires_grad]
        if wrt and outputs:
            self.graphs[self.results] = outputs, wrt
            while len(self.graphs) > MAX_GRAPHS:
                del self.graphs[next(iter(self.graphs))]
        return packed.frame

    def do_import(self, request: wire.Unpacked) -> dict[str, Any]:
        """Import a module, or run one more cell of a notebook."""
        name, cell = request.message["module"], request.message["cell"]
        if cell is None:
            self.modules[name] = importlib.import_module(name)
            return {}
        if name not in self.modules:
            self.modules[name] = sys.modules[name] = ModuleType(name)
        self.finder.run(self.modules[name], cell)
        return {}

    def do_call(self, request: wire.Unpacked) -> dict[str, Any]:
        """Call a function, a class or a method; say which arguments it changed."""
        message = request.message
        function, replaced = self._target(message)
        torch = sys.modules.get("torch")
        before = [bytes(buffer) for buffer in request.buffers]
        with contextlib.ExitStack() as stack:
            if torch is not None:
                stack.enter_context(torch.set_grad_enabled(message["grad"]))
            stack.enter_context(rules.forbid(message["forbid"], message["name"]))
            chance.sow(message["seed"])
            value = function(*message["args"], **message["kwargs"])
        buffers = enumerate(request.buffers)
        changed = [(i, np.frombuffer(buffer, np.uint8)) for i, buffer in buffers if buffer != before[i]]
        wrt = [replaced.get(id(array), array) for array in request.arrays if is_tensor(array) and array.requires_grad]
        modes = [bool(twin.training) for twin in request.twins]
        if isinstance(function, type) and isinstance(value, function):
            return {"value": None, "object": self._adopt(value), "changed": changed, "modes": modes}
        return {"value": value, "object": None, "changed": changed, "modes": modes, "wrt": wrt if message["grad"] else []}

    def do_getattr(self, request: wire.Unpacked) -> dict[str, Any]:
        """What an object holds; and with an array the others of the object, which will be asked for next."""
        item, name = self._object(request.message), request.message["name"]
        value = getattr(item, name)
        if callable(value):
            return {"value": None, "callable": True}
        held = vars(item) if type(value) is np.ndarray and hasattr(item, "__dict__") else {}
        others = {key: other for key, other in held.items() if type(other) is np.ndarray and key != name}
        small = sum(other.nbytes for other in others.values()) <= MOST_BESIDE
        return {"value": value, "callable": False, "beside": others if small else {}}

    def do_gradient(self, request: wire.Unpacked) -> dict[str, Any]:
        """The gradients of a remembered result, asked for by its token."""
        torch = sys.modules["torch"]
        outputs, wrt = self.graphs[request.message["token"]]
        pairs = [(out, grad) for out, grad in zip(outputs, request.message["grads"], strict=True) if grad is not None]
        chosen, given = zip(*pairs, strict=True) if pairs else ((), ())
        if not chosen:
            return {"value": [None] * len(wrt)}
        return {"value": list(torch.autograd.grad(chosen, wrt, given, retain_graph=True, allow_unused=True))}

    def _target(self, message: Mapping[str, Any]) -> tuple[Any, dict[int, Any]]:
        name = message["name"]
        if message["object"] is None:
            function = vars(self.modules[message["module"]]).get(name)
            if function is None:
                raise MissingError(name)
            return function, {}
        item = self._object(message)
        if message["state"] is None:
            return getattr(item, name), {}
        return item if name == "forward" else getattr(item, name), _restore(item, message["state"], message["training"])

    def _object(self, message: Mapping[str, Any]) -> Any:
        """The object that is asked, with what was set since it was asked before."""
        item = self.objects[message["object"]]
        for name, value in message.get("set", {}).items():
            setattr(item, name, value)
        return item

    def _adopt(self, value: Any) -> dict[str, Any]:
        """Keep an object of the student's class, and describe it for the grader's mirror."""
        self.objects.append(value)
        described: dict[str, Any] = {"id": len(self.objects) - 1, "class": type(value).__name__, "state": None}
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.nn.Module):
            parameters = dict(value.named_parameters())
            buffers = {name: tensor for name, tensor in value.state_dict().items() if name not in parameters}
            described |= {"state": parameters, "buffers": buffers, "training": bool(value.training)}
        return described

    def describe(self, error: BaseException) -> dict[str, Any]:
        """An exception as data: its first built-in class, its message, and the student's own lines."""
        kind = next(cls for cls in type(error).__mro__ if cls.__module__ == "builtins")
        text, own = _message(error), type(error).__name__
        out: dict[str, Any] = {"kind": "raised", "type": kind.__name__, "text": text, "own": own, "frames": self._frames(error)}
        if not issubclass(kind, Exception):
            out |= {"kind": "exited"}
        elif isinstance(error, rules.Forbidden):
            out |= {"kind": "rule"}
        elif isinstance(error, MissingError):
            out |= {"kind": "missing"}
        elif isinstance(error, MemoryError) or any(words in text for words in _MEMORY):
            out |= {"kind": "memory"}
        elif isinstance(error, SyntaxError) and error.filename in self.files:
            out["frames"].append([error.filename, error.lineno or 0, "<module>", (error.text or "").strip()[:200], ""])
            out["text"] = str(error.msg)
        return out

    def _frames(self, error: BaseException) -> list[list[Any]]:
        """The student's own frames, outermost first; the middle of a long recursion is left out."""
        found = []
        for frame, line in traceback.walk_tb(error.__traceback__):
            code = frame.f_code
            if code.co_filename in self.files:
                name = getattr(code, "co_qualname", code.co_name)
                text = linecache.getline(code.co_filename, line).strip()[:200]
                found.append([code.co_filename, line, name, text, shapes_at(text, frame.f_locals)])
        half = MAX_FRAMES // 2
        return found if len(found) <= MAX_FRAMES else found[:half] + found[-half:]


def serve(read: Callable[[int], bytes], write: Callable[[bytes], Any], reply_bytes: int) -> None:
    """Say that all is ready, then answer requests until the grader hangs up. The first one holds the sources."""
    write(pack({"ready": True}).frame)
    child: Child | None = None
    while True:
        prefix = _exactly(read, wire.PREFIX.size)
        head, body = wire.PREFIX.unpack(prefix)
        request = wire.unpack(_exactly(read, head), _exactly(read, body), strided=True)
        if child is None:
            child = Child({name: bytes(source) for name, source in request.message["sources"].items()}, reply_bytes)
            continue
        write(child.answer(request))


def preload(names: Sequence[str]) -> bool:
    """Import what is to be there before the wall and the student's code, as far as it is installed. Whether any was new.

    With torch comes what its first operation on "meta" would import, or an optimizer.
    """
    new = [name for name in names if name not in sys.modules]
    for name in (*new, "torch._dynamo") if "torch" in new else new:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    return any(name in sys.modules for name in new)


def watch(trace: int) -> None:
    """Let a fatal signal, and SIGUSR1 from the zygote before it kills, write down the line that runs."""
    faulthandler.enable(trace, all_threads=False)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, trace, all_threads=False)


def prepare() -> None:
    """The same random numbers in every run, no torch.compile, and sentences where the wall would only say EPERM."""
    random.seed(0)
    np.random.seed(0)
    vars(np.random)["default_rng"] = chance.repeatable(np.random.default_rng)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(0)
        vars(torch)["compile"] = _no_compiler
    sys.addaudithook(_refuse)


def _refuse(event: str, args: Sequence[Any]) -> None:
    what = _REFUSED.get(event)
    if event == "open" and not isinstance(args[0], int) and isinstance(args[2], int) and args[2] & _WRITES:
        what = "write files"
    if what is not None:
        raise PermissionError(f"code that is being graded can't {what}")


def _no_compiler(*_: Any, **__: Any) -> Any:
    raise RuntimeError("torch.compile can't be used in code that is being graded: it starts a C++ compiler")


def _restore(module: Any, state: Mapping[str, Any], training: bool) -> dict[int, Any]:
    """Give a module the values of the grader's mirror; which parameter stands for which tensor of the request."""
    torch = sys.modules["torch"]
    parameters = dict(module.named_parameters())
    for kind in ("device", "dtype"):
        kinds = {getattr(tensor, kind) for tensor in state.values()}
        if len(kinds) == 1 and any(getattr(parameter, kind) not in kinds for parameter in parameters.values()):
            module.to(*kinds)
            parameters = dict(module.named_parameters())
    if module.training != training:
        module.train(training)
    for name, tensor in state.items():
        parameter = parameters[name]
        if not torch.equal(parameter.data, tensor):
            parameter.data = tensor.detach()
        parameter.requires_grad_(tensor.requires_grad)
    return {id(tensor): parameters[name] for name, tensor in state.items()}


def _message(error: BaseException) -> str:
    try:
        return str(error)[:2000]
    except BaseException:
        return "(its message can't be read)"


def _exactly(read: Callable[[int], bytes], length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = read(min(length - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
