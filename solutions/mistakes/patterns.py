"""Reading the attention of a real model, and what goes wrong there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from grader.diagnosis.mistakes import instead_of

from .arrays import Part

Attentions = tuple[torch.Tensor, ...]  # (B, h, n, n) of each layer


def read_quietly(model: Any, inputs: Mapping[str, Any]) -> Attentions:
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return model(**inputs, output_attentions=True).attentions
    finally:
        model.train(training)


def first_item(attentions: Attentions, layer: int) -> np.ndarray:
    return attentions[layer][0].numpy()


def extract_attention_patterns(
    model: Any, inputs: Mapping[str, Any], layer: int, *, read: Part = read_quietly, pick: Part = first_item
) -> np.ndarray:
    return pick(read(model, inputs), layer)


# Running the model


@instead_of(read_quietly)
def model_read_as_it_came(model: Any, inputs: Mapping[str, Any]) -> Attentions:
    """The model is run in the mode in which it came: in training, dropout takes some of the weights away.

    Hint: In which of its two modes does a model drop nothing, and who says that it is in that one?
    """
    with torch.no_grad():
        return model(**inputs, output_attentions=True).attentions


@instead_of(read_quietly)
def model_left_in_eval_mode(model: Any, inputs: Mapping[str, Any]) -> Attentions:
    """The model is put into eval mode and left there.

    Hint: A training loop calls your function between two steps. What happens to its dropout afterwards?
    """
    model.eval()
    with torch.no_grad():
        return model(**inputs, output_attentions=True).attentions


@instead_of(read_quietly)
def model_left_in_training_mode(model: Any, inputs: Mapping[str, Any]) -> Attentions:
    """The model is left in training mode, in whichever mode it came.

    Hint: The caller's model was in one of two modes. Where does your code remember which?
    """
    attentions = read_quietly(model, inputs)
    model.train()
    return attentions


@instead_of(read_quietly)
def model_read_in_training_mode(model: Any, inputs: Mapping[str, Any]) -> Attentions:
    """The model is put into training mode to be read, so dropout takes some of the weights away.

    Hint: In which of its two modes does a model drop nothing?
    """
    training = model.training
    model.train()
    try:
        with torch.no_grad():
            return model(**inputs, output_attentions=True).attentions
    finally:
        model.train(training)


@instead_of(read_quietly)
def model_gets_only_the_ids(model: Any, inputs: Mapping[str, Any]) -> Attentions:
    """Only the tokens reach the model, without the mask that came with them: padding is attended to.

    Hint: How many tensors may `inputs` hold, and how many of them does your code pass on?
    """
    return read_quietly(model, {"input_ids": inputs["input_ids"]})


@instead_of(read_quietly)
def model_gets_the_first_item_only(model: Any, inputs: Mapping[str, Any]) -> Attentions:
    """The dict of inputs is cut as if it were a tensor, so that the model gets something else than the batch.

    Hint: What is `inputs`, a tensor or a dict of tensors? Does the first item have to be cut out before the model runs?
    """
    return read_quietly(model, {name: tensor[0] for name, tensor in inputs.items()})


@instead_of(read_quietly)
def model_gets_the_dict_whole(model: Any, inputs: Mapping[str, Any]) -> Attentions:
    """The dict of inputs is handed over as one argument, where the model wants its entries by their names.

    Hint: What do two asterisks in front of a dict do in a call?
    """
    with torch.no_grad():
        return model(inputs).attentions


@instead_of(first_item)
def attentions_still_in_a_graph(attentions: Attentions, layer: int) -> np.ndarray:
    """The model is run with gradients, and NumPy refuses tensors that keep them.

    Hint: Nobody trains here. With what does one tell torch not to keep a graph?
    """
    return attentions[layer][0].clone().requires_grad_().numpy()


# Picking the answer out


@instead_of(first_item)
def layers_counted_from_1(attentions: Attentions, layer: int) -> np.ndarray:
    """The layer before the one that was asked for is given: layers are counted from 1.

    Hint: Which layer is number 0?
    """
    return attentions[layer - 1][0].numpy()


@instead_of(first_item)
def layer_after_the_one_asked_for(attentions: Attentions, layer: int) -> np.ndarray:
    """The layer after the one that was asked for is given.

    Hint: `.hidden_states` begins with the embeddings and is one longer than there are layers. How long is `.attentions`?
    """
    return attentions[layer + 1][0].numpy()


@instead_of(first_item)
def always_the_last_layer(attentions: Attentions, layer: int) -> np.ndarray:
    """The last layer is given, whichever was asked for.

    Hint: Follow the argument `layer` through your code. Where is it used?
    """
    return attentions[-1][0].numpy()


@instead_of(first_item)
def always_the_first_layer(attentions: Attentions, layer: int) -> np.ndarray:
    """The first layer is given, whichever was asked for.

    Hint: Follow the argument `layer` through your code. Where is it used?
    """
    return attentions[0][0].numpy()


@instead_of(first_item)
def layer_and_item_swapped(attentions: Attentions, layer: int) -> np.ndarray:
    """The number of the layer picks the item of the batch, from the first layer.

    Hint: What are the axes of `.attentions`, from the outside in: first the layers, or first the items?
    """
    return attentions[0][layer].numpy()


@instead_of(first_item)
def attention_of_the_whole_batch(attentions: Attentions, layer: int) -> np.ndarray:
    """The weights of the whole batch are given, with an axis for its items.

    Hint: How many axes does the exercise promise, and which one of the model's four is missing there?
    """
    return attentions[layer].numpy()


@instead_of(first_item)
def attention_of_a_batch_of_one(attentions: Attentions, layer: int) -> np.ndarray:
    """The axis of the batch is still there, with one item.

    Hint: What is the difference between `x[0]` and `x[:1]`?
    """
    return attentions[layer][:1].numpy()


@instead_of(first_item)
def attention_squeezed(attentions: Attentions, layer: int) -> np.ndarray:
    """The axis of the batch is squeezed away, which works for one item only (and takes other axes of size 1 too).

    Hint: What does `squeeze` do to an axis of size 3, and what to a sentence of one token?
    """
    return attentions[layer].squeeze().numpy()


@instead_of(first_item)
def attention_of_the_last_item(attentions: Attentions, layer: int) -> np.ndarray:
    """The last item of the batch is given, not the first.

    Hint: Which index has the first item?
    """
    return attentions[layer][-1].numpy()


@instead_of(first_item)
def attention_averaged_over_the_batch(attentions: Attentions, layer: int) -> np.ndarray:
    """The weights are averaged over the batch.

    Hint: Of whom are the weights that the exercise asks for: of all items, or of one?
    """
    return attentions[layer].mean(0).numpy()


@instead_of(first_item)
def attention_averaged_over_heads(attentions: Attentions, layer: int) -> np.ndarray:
    """The heads are averaged, so that nothing is left to tell one from another.

    Hint: How many matrices should there be for a layer with 12 heads?
    """
    return attentions[layer][0].mean(0).numpy()


@instead_of(first_item)
def first_head_of_every_item(attentions: Attentions, layer: int) -> np.ndarray:
    """The first head of every item is given, where every head of the first item is due.

    Hint: Which comes first in (B, h, n, n), the items or the heads?
    """
    return attentions[layer][:, 0].numpy()


@instead_of(first_item)
def attention_of_all_layers(attentions: Attentions, layer: int) -> np.ndarray:
    """All layers are given, where one was asked for.

    Hint: Follow the argument `layer` through your code. Where is it used?
    """
    return torch.stack(attentions)[:, 0].numpy()


@instead_of(first_item)
def attention_turned_over(attentions: Attentions, layer: int) -> np.ndarray:
    """Queries and keys have changed places: the columns sum to 1, not the rows.

    Hint: In the model's weights a row belongs to one query. What is a row of yours?
    """
    return attentions[layer][0].transpose(-1, -2).numpy()


@instead_of(first_item)
def attention_as_a_tensor(attentions: Attentions, layer: int) -> torch.Tensor:
    """A tensor is given, where a NumPy array is due.

    Hint: Which type does the exercise promise, and how does one get it from a tensor?
    """
    return attentions[layer][0]


@instead_of(first_item)
def attention_as_lists(attentions: Attentions, layer: int) -> list[Any]:
    """Nested lists are given, where a NumPy array is due.

    Hint: Which type does the exercise promise?
    """
    return attentions[layer][0].tolist()


@instead_of(first_item)
def patterns_in_float64(attentions: Attentions, layer: int) -> np.ndarray:
    """The weights come as float64, whatever the model computes in.

    Hint: Which dtype does the model give, and which step of yours makes another?
    """
    return attentions[layer][0].double().numpy()
