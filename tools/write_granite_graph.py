"""Write `src/tamis/models/granite.onnx`: the graph of granite-embedding-30m without its weights.

The weights stay in the package that carries them; `tamis.models.encoder` hands them to
onnxruntime by name when it opens the graph. Only this script needs the `onnx` package, and
`tests/unit/test_models.py` writes the graph again and compares, so the file cannot drift
from the script that made it.

    python tools/write_granite_graph.py [OUT]
"""

import sys
from pathlib import Path

from onnx import ModelProto, NodeProto, TensorProto, helper

OUT = Path(__file__).resolve().parents[1] / "src" / "tamis" / "models" / "granite.onnx"
FUSED = "com.microsoft"  # onnxruntime's own operators: a third faster than the plain ones here
LAYERS, HEADS, HIDDEN, INNER = 6, 12, 384, 1536
VOCABULARY, POSITIONS, GROUP = 50265, 514, 64
EPSILON = 1e-12


class Graph:
    """Nodes and weight declarations, collected in order."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []

    def node(
        self,
        operator: str,
        *inputs: str,
        out: str = "",
        domain: str = "",
        **attributes: object,
    ) -> str:
        name = out or f"t{len(self.nodes)}"
        made = helper.make_node(
            operator, list(inputs), name.split(), domain=domain, **attributes
        )
        self.nodes.append(made)
        return name

    def weight(self, name: str, shape: list[int], kind: int = TensorProto.FLOAT) -> str:
        """Declare a weight whose values come from outside the file."""
        tensor = TensorProto(name=name, data_type=kind, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights")
        self.weights.append(tensor)
        return name

    def constant(self, name: str, values: list[int]) -> str:
        self.weights.append(
            helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
        )
        return name


def embedding(graph: Graph) -> str:
    """Token + position vectors, normalised. Token vectors stay 8-bit and only the rows in use are scaled."""
    groups = HIDDEN // GROUP
    graph.weight("word_emb", [VOCABULARY, HIDDEN], TensorProto.INT8)
    graph.weight("word_emb.scale", [VOCABULARY, groups, 1])
    codes = graph.node(
        "Cast", graph.node("Gather", "word_emb", "ids"), to=TensorProto.FLOAT
    )
    grouped = graph.node(
        "Reshape", codes, graph.constant("by_group", [1, -1, groups, GROUP])
    )
    scaled = graph.node("Mul", grouped, graph.node("Gather", "word_emb.scale", "ids"))
    tokens = graph.node("Reshape", scaled, graph.constant("by_token", [1, -1, HIDDEN]))
    graph.weight("pos_emb", [POSITIONS, HIDDEN])
    return add_and_normalise(
        graph, tokens, graph.node("Gather", "pos_emb", "positions"), "emb_ln"
    )


def add_and_normalise(
    graph: Graph, left: str, right: str, name: str, bias: str = ""
) -> str:
    graph.weight(f"{name}.w", [HIDDEN])
    graph.weight(f"{name}.b", [HIDDEN])
    inputs = [left, right, f"{name}.w", f"{name}.b", *([bias] if bias else [])]
    return graph.node("SkipLayerNormalization", *inputs, domain=FUSED, epsilon=EPSILON)


def linear(graph: Graph, value: str, name: str, rows: int, columns: int) -> str:
    graph.weight(f"{name}.w", [rows, columns])
    graph.weight(f"{name}.b", [columns])
    return graph.node("MatMul", value, f"{name}.w")


def layer(graph: Graph, value: str, index: int) -> str:
    at = f"l{index}"
    joined = graph.node(
        "Add", linear(graph, value, f"{at}.qkv", HIDDEN, 3 * HIDDEN), f"{at}.qkv.b"
    )
    graph.node("Split", joined, out=f"{at}.q {at}.k {at}.v", axis=2, num_outputs=3)
    heads = graph.node(
        "MultiHeadAttention",
        f"{at}.q",
        f"{at}.k",
        f"{at}.v",
        domain=FUSED,
        num_heads=HEADS,
    )
    attended = linear(graph, heads, f"{at}.ao", HIDDEN, HIDDEN)
    value = add_and_normalise(graph, attended, value, f"{at}.aln", bias=f"{at}.ao.b")
    wide = graph.node(
        "BiasGelu",
        linear(graph, value, f"{at}.f1", HIDDEN, INNER),
        f"{at}.f1.b",
        domain=FUSED,
    )
    narrow = linear(graph, wide, f"{at}.f2", INNER, HIDDEN)
    return add_and_normalise(graph, narrow, value, f"{at}.fln", bias=f"{at}.f2.b")


def model() -> ModelProto:
    graph = Graph()
    value = embedding(graph)
    for index in range(LAYERS):
        value = layer(graph, value, index)
    first = graph.node("Gather", value, graph.constant("first", [0]), axis=1)
    graph.node("LpNormalization", first, out="vector", axis=-1, p=2)
    made = helper.make_graph(
        graph.nodes,
        "granite-embedding-30m-english",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, [1, "n"])
            for name in ("ids", "positions")
        ],
        [helper.make_tensor_value_info("vector", TensorProto.FLOAT, [1, 1, HIDDEN])],
        graph.weights,
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(FUSED, 1)]
    return helper.make_model(
        made, opset_imports=opsets, ir_version=9, producer_name="tamis"
    )


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    target.write_bytes(model().SerializeToString(deterministic=True))
    print(f"{target}: {target.stat().st_size} bytes")
