# %% [markdown]
# ## The heads, drawn
#
# The cell below draws what your `extract_attention_patterns` found in the trained BERT, with the name that your
# `classify_head` gave. A row is a layer and a column a head; within a picture, rows are the tokens that ask and
# columns those that are looked at. Bright columns at the left and at the right edge are sinks: `[CLS]` and
# `[SEP]`. A bright line just below the diagonal is the token before.
#
# Look for the one picture in the first layer that is nothing but such a line, and then for a head whose name you
# would not have given. The bounds in `classify_head` are rules of thumb: which of them would you move?

# %%
if __name__ == "__main__":  # needs the cell before it
    from matplotlib import pyplot as plt

    colours = {"attention_sink": "tab:blue", "prev_token": "tab:red", "self_attend": "tab:green"}
    colours |= {"focused": "tab:orange", "broad": "tab:gray"}
    first = tokenizer(sentences[:1], return_tensors="pt")
    drawn, axes = plt.subplots(6, 12, figsize=(18, 10), layout="constrained")
    for layer, row in enumerate(axes):
        for head, weights in enumerate(extract_attention_patterns(model, first, layer)):
            axis, name = row[head], names[layer, head]
            axis.imshow(weights, vmin=0, vmax=1)
            axis.set_title(f"{layer + 1}-{head + 1} {name}", fontsize=8, color=colours[name])
            axis.set_xticks([]), axis.set_yticks([])
    words = " ".join(tokenizer.convert_ids_to_tokens(first["input_ids"][0]))
    drawn.suptitle(f"layer-head, for: {words}")
    plt.show()

# %% [markdown]
# ## What a name is worth
#
# Is a head that looks at one token for most of its weight a head that does nothing? Leave each one out, and draw how
# far the sentences' vectors move. Dark is hardly at all; the scale is logarithmic, because a few heads move them a
# hundred times further than most.
#
# Compare the map with the pictures above. The names were read from the weights alone. How far a vector moves also
# depends on what the values say and on what $W_O$ makes of them, and on the layers that come after, which can mend
# what is missing.

# %%
if __name__ == "__main__":  # needs the cells before it
    from matplotlib.colors import LogNorm

    moved = np.array([[moves[layer, head] for head in range(12)] for layer in range(6)])
    drawn, (left, right) = plt.subplots(1, 2, figsize=(14, 4), layout="constrained", width_ratios=[2, 1])
    shown = left.imshow(moved, norm=LogNorm())
    drawn.colorbar(shown, ax=left, label="1 - cosine of the vectors with and without the head")
    left.set(xlabel="head", ylabel="layer", title="one head left out")
    left.set_xticks(range(12), range(1, 13)), left.set_yticks(range(6), range(1, 7))
    for (layer, head), name in names.items():
        left.text(head, layer, name[0], ha="center", va="center", color="white")  # the first letter of its name
    by_name = {name: [moves[place] for place in names if names[place] == name] for name in colours}
    by_name = {name: found for name, found in by_name.items() if found}
    for at, (name, found) in enumerate(by_name.items()):
        right.semilogy([at] * len(found), found, "o", color=colours[name], alpha=0.6)
    right.set_xticks(range(len(by_name)), [f"{name}\n{len(found)} heads" for name, found in by_name.items()], fontsize=8)
    right.set_title("the same, by name")
    plt.show()
    for name, found in by_name.items():
        print(f"{name:15} {len(found):2} heads: {min(found):.5f} to {max(found):.5f}, median {np.median(found):.5f}")
