"""Small networks, one for each pass that few real networks need; `task_keys` lowers them for every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper
from quantised_graphs import CONVOLUTIONS, convolution, moved, product

Constants: TypeAlias = dict[str, "tuple[int, ...] | np.ndarray"]
"""Name → values, or the shape of weights to draw."""
Make: TypeAlias = Callable[[], onnx.ModelProto]


def _write(inputs: str, body: str, constants: Constants, opset: int = 17, outputs: str = "float y") -> Make:
    """Describe a network in ONNX's text syntax."""

    def make() -> onnx.ModelProto:
        random = np.random.RandomState(0)
        ir = 8 if opset < 21 else 11
        text = f'<ir_version: {ir}, opset_import: ["" : {opset}]> net ({inputs}) => ({outputs}) {{ {body} }}'
        model = onnx.parser.parse_model(text)
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")  # written without one it is a number
        for name, given in constants.items():
            # In 256ths, so that folded values are exact on any machine.
            drawn = random.randint(-64, 64, given).astype(np.float32) / 256 if isinstance(given, tuple) else given
            model.graph.initializer.append(numpy_helper.from_array(drawn, name))
        return model

    return make


def _load(make: Callable[[], tuple[bytes, tuple[int, ...]]]) -> Make:
    return lambda: onnx.load_from_string(make()[0])


def _quantise(name: str, activations: str) -> Make:
    return _load(lambda: convolution(np.random.RandomState(0), activations, **CONVOLUTIONS[name]))


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


_ONES = np.ones(32, np.float32)
_ATTENTION = """
    q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)
    q4 = Reshape(q, heads) k4 = Reshape(k, heads) v4 = Reshape(v, heads)
    qt = Transpose<perm=[0, 2, 1, 3]>(q4) kt = Transpose<perm=[0, 2, 3, 1]>(k4) vt = Transpose<perm=[0, 2, 1, 3]>(v4)
    s = MatMul(qt, kt) scaled = Mul(s, factor)"""
_PROJECTIONS: Constants = {
    **dict.fromkeys(("wq", "wk", "wv", "wo"), (64, 64)),
    "heads": _ints(1, 17, 4, 16),
    "flat": _ints(1, 17, 64),
    "factor": np.float32(0.25),
}

NETWORKS: dict[str, Make] = {
    "convolutions": _write(
        "float[1, 3, 20, 20] x",
        """a = Conv<strides=[2, 2], pads=[1, 1, 1, 1]>(x, w, b) c = Clip(a, low, high)
        d = Conv<group=20, pads=[1, 1, 1, 1]>(c, deep) e = HardSwish(d)
        p = Conv(e, point) r = Add(p, c) m = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(r)
        g = GlobalAveragePool(m) f = Flatten(g) y = Gemm<transB=1>(f, last, bias)""",
        {
            "w": (20, 3, 3, 3),
            "b": (20,),
            "deep": (20, 1, 3, 3),
            "point": (20, 20, 1, 1),
            "last": (10, 20),
            "bias": (10,),
            "low": np.float32(0),
            "high": np.float32(6),
        },
    ),
    "groups": _write(
        "float[1, 24, 9, 8] x",
        "a = Conv<group=3, pads=[1, 1, 1, 1]>(x, w) b = Relu(a) y = Conv<group=2>(b, v)",
        {"w": (24, 8, 3, 3), "v": (6, 12, 1, 1)},
    ),
    "dilated": _write(
        "float[1, 12, 17, 17] x",
        "a = Conv<dilations=[2, 2], pads=[2, 2, 2, 2]>(x, w) b = LeakyRelu<alpha=0.1>(a) y = Concat<axis=1>(a, b, x)",
        {"w": (12, 12, 3, 3)},
    ),
    "large_convolution": _write(
        "float[1, 32, 28, 28] x",
        "a = Conv<pads=[1, 1, 1, 1]>(x, w, b) s = Sigmoid(a) m = Mul(a, s) r = Add(m, x) y = Relu(r)",
        {"w": (32, 32, 3, 3), "b": (32,)},
    ),
    "one_dimension": _write(
        "float[1, 8, 40] x",
        """a = Conv<pads=[1, 1]>(x, w) r = Relu(a) b = Conv<strides=[2], group=16>(r, v)
        t = ConvTranspose<strides=[2]>(b, u) y = MaxPool<kernel_shape=[2], strides=[2]>(t)""",
        {"w": (16, 8, 3), "v": (16, 1, 3), "u": (16, 4, 2)},
    ),
    "three_dimensions": _write(
        "float[1, 4, 6, 10, 10] x",
        """a = Conv<pads=[1, 1, 1, 1, 1, 1]>(x, w) b = Relu(a) c = Conv(b, v)
        y = MaxPool<kernel_shape=[2, 2, 2], strides=[2, 2, 2]>(c)""",
        {"w": (8, 4, 3, 3, 3), "v": (8, 8, 1, 1, 1)},
    ),
    "transposed": _write(
        "float[1, 8, 9, 9] x",
        """a = ConvTranspose<strides=[2, 2]>(x, w) b = Relu(a) c = Conv(b, k)
        y = ConvTranspose<strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]>(c, v)""",
        {"w": (8, 16, 2, 2), "k": (8, 16, 1, 1), "v": (8, 4, 3, 3)},
    ),
    "resized": _write(
        "float[1, 8, 8, 8] x",
        """a = Conv(x, w) n = Resize<mode="nearest", coordinate_transformation_mode="asymmetric",
            nearest_mode="floor">(a, , twice)
        l = Resize<mode="linear", coordinate_transformation_mode="half_pixel">(a, , twice)
        c = Concat<axis=1>(n, l) five = Reshape(c, apart) turned = Transpose<perm=[0, 2, 1, 3, 4]>(five)
        back = Reshape(turned, joined) y = AveragePool<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(back)""",
        {
            "w": (8, 8, 1, 1),
            "twice": _floats(1, 1, 2, 2),
            "apart": _ints(1, 2, 8, 16, 16),
            "joined": _ints(1, 16, 16, 16),
        },
    ),
    "squeeze_and_excitation": _write(
        "float[1, 16, 12, 12] x",
        """a = Conv<pads=[1, 1, 1, 1]>(x, w) n = BatchNormalization(a, scale, shift, shift, ones)
        g = ReduceMean<axes=[2, 3], keepdims=1>(n) d = Conv(g, down) r = Relu(d) u = Conv(r, up)
        s = HardSigmoid(u) m = Mul(n, s) y = PRelu(m, slope)""",
        {
            "w": (16, 16, 3, 3),
            "scale": (16,),
            "shift": (16,),
            "ones": np.ones(16, np.float32),
            "down": (4, 16, 1, 1),
            "up": (16, 4, 1, 1),
            "slope": (16, 1, 1),
        },
    ),
    "last_axis": _write(
        "float[1, 8, 8, 16] x",
        """t = Transpose<perm=[0, 3, 1, 2]>(x) c = Conv<pads=[1, 1, 1, 1]>(t, w) b = Transpose<perm=[0, 2, 3, 1]>(c)
        n = LayerNormalization(b, ones, shift) m = MatMul(n, v) e = Erf(m) y = Add(e, m)""",
        {"w": (32, 16, 3, 3), "ones": _ONES, "shift": (32,), "v": (32, 32)},
    ),
    "reflected": _write(
        "float[1, 14, 8, 8] x",
        'q = Pad<mode="reflect">(x, pads) a = Conv(q, w) y = Conv(a, v)',
        {"w": (24, 16, 3, 3), "v": (8, 24, 1, 1), "pads": _ints(0, 1, 1, 0, 0, 1, 1, 0)},
    ),
    "attention": _write(
        "float[1, 17, 64] x",
        f"""{_ATTENTION} p = Softmax<axis=-1>(scaled) o = MatMul(p, vt) ot = Transpose<perm=[0, 2, 1, 3]>(o)
        of = Reshape(ot, flat) op = MatMul(of, wo) y = Add(op, x)""",
        _PROJECTIONS,
    ),
    "masked_attention": _write(
        "float[1, 17, 64] x, float[1, 1, 17, 17] mask",
        f"""{_ATTENTION} masked = Add(scaled, mask) top = ReduceMax<axes=[3], keepdims=1>(masked)
        less = Sub(masked, top) e = Exp(less) all = ReduceSum<keepdims=1>(e, last) p = Div(e, all)
        o = MatMul(p, vt) ot = Transpose<perm=[0, 2, 1, 3]>(o) y = Reshape(ot, flat)""",
        {**_PROJECTIONS, "last": _ints(3)},
    ),
    "attention_operator": _write(
        "float[1, 4, 9, 16] q, float[1, 2, 20, 16] k, float[1, 2, 20, 16] v",
        "y = Attention<is_causal=1>(q, k, v)",
        {},
        opset=23,
    ),
    "key_cache": _write(
        "float[1, 4, 32, 16] cache, float[1, 4, 1, 16] row, int64[1] position, float[1, 4, 1, 16] q",
        """t = Transpose<perm=[2, 0, 1, 3]>(cache) r = Transpose<perm=[2, 0, 1, 3]>(row)
        at = Reshape(position, place) s = ScatterND(t, at, r) kept = Transpose<perm=[1, 2, 0, 3]>(s)
        kt = Transpose<perm=[0, 1, 3, 2]>(kept) sc = MatMul(q, kt) p = Softmax<axis=-1>(sc) y = MatMul(p, kept)""",
        {"place": _ints(1, 1)},
        outputs="float y, float kept",
    ),
    "tensor_scatter": _write(
        "float[1, 4, 32, 16] cache, float[1, 4, 1, 16] row, int64[1] position",
        "y = TensorScatter<axis=2>(cache, row, position)",
        {},
        opset=24,
    ),
    "lstm": _write(
        "float[5, 1, 12] x",
        'steps, y, cell = LSTM<hidden_size=16, direction="bidirectional">(x, w, r, b)',
        {"w": (2, 64, 12), "r": (2, 64, 16), "b": (2, 128)},
    ),
    "gru": _write(
        "float[5, 1, 12] x",
        "y, last = GRU<hidden_size=16, linear_before_reset=1>(x, w, r, b)",
        {"w": (1, 48, 12), "r": (1, 48, 16), "b": (1, 96)},
    ),
    "residuals": _write(
        "float[1, 13, 32] x",
        """n = LayerNormalization(x, ones, shift) f = Reshape(n, flat) g = Gemm(f, w, b) u = Reshape(g, wide)
        a = Add(x, u) n2 = LayerNormalization(a, ones, shift) f2 = Reshape(n2, flat) g2 = Gemm(f2, v, b)
        u2 = Reshape(g2, wide) a2 = Add(u2, a) y = LayerNormalization(a2, ones, shift)""",
        {
            "ones": _ONES,
            "shift": (32,),
            "w": (32, 32),
            "v": (32, 32),
            "b": (32,),
            "flat": _ints(13, 32),
            "wide": _ints(1, 13, 32),
        },
    ),
    "norm_in_operators": _write(
        "float[1, 13, 32] x",
        """m = ReduceMean<axes=[2], keepdims=1>(x) d = Sub(x, m) q = Pow(d, two) v = ReduceMean<axes=[2], keepdims=1>(q)
        e = Add(v, small) r = Sqrt(e) z = Div(d, r) g = Mul(z, scale) h = Add(g, shift) p = MatMul(h, w) y = Tanh(p)""",
        {"two": np.float32(2), "small": np.float32(2**-16), "scale": (32,), "shift": (32,), "w": (32, 197)},
    ),
    "columns": _write(
        "float[1, 300] x",
        "a = MatMul(x, w) b = Relu(a) c = MatMul(b, v) y = Softmax<axis=-1>(c)",
        {"w": (300, 197), "v": (197, 1001)},
    ),
    "one_hot": _write(
        "int64[1, 9] x",
        """k = Unsqueeze(x, last) e = Equal(k, rows) h = Cast<to=1>(e) m = MatMul(h, w) a = Add(m, b) t = Tanh(a)
        o = OneHot<axis=-1>(x, depth, values) y = Concat<axis=-1>(t, o)""",
        {
            "last": _ints(2),
            "rows": np.arange(20),
            "w": (20, 16),
            "b": (16,),
            "depth": _ints(20),
            "values": _floats(0, 1),
        },
    ),
    "prefix_sums": _write(
        "float[2, 5000] x",
        "a = CumSum(x, axis) b = CumSum<exclusive=1, reverse=1>(x, axis) y = Add(a, b)",
        {"axis": np.array(1, np.int32)},
    ),
    "sorted": _write(
        "float[1, 100] x",
        "y, at = TopK<axis=1>(x, k) m = ArgMax<axis=1>(x)",
        {"k": _ints(5)},
        outputs="float y, int64 at, int64 m",
    ),
    "nothing": _write(
        "float[1, 4, 8, 6] x",
        """a, b = Split<axis=3>(x, parts) c = Concat<axis=3>(b, a) d = Gather<axis=2>(c, rows)
        e = Slice(d, one, five, axis) y = Where(yes, e, zero)""",
        {
            "parts": _ints(6, 0),
            "rows": _ints(3, 1, 0, 2, 6, 5),
            "one": _ints(1),
            "five": _ints(5),
            "axis": _ints(2),
            "yes": np.array([[True, False] * 3]),
            "zero": np.float32(0),
        },
    ),
    "wide": _write(
        "float[1, 64] x",
        " ".join(f"v{at} = Mul(x, c{at})" for at in range(150))
        + f" y = Concat<axis=0>({', '.join(f'v{at}' for at in range(150))})",
        {f"c{at}": (1, 64) for at in range(150)},
    ),
    "halves": _write(
        "float16[1, 13, 32] x",
        "n = Softmax<axis=-1>(x) a = MatMul(n, w) b = Add(a, x) y = Tanh(b)",
        {"w": (np.arange(1024).reshape(32, 32) % 7 / 16).astype(np.float16)},
        outputs="float16 y",
    ),
    "doubles": _write(
        "double[2, 12] x",
        "a = MatMul(x, w) b = Exp(a) c = Cast<to=1>(b) y = ReduceSum(c, last)",
        {"w": np.arange(96, dtype=np.float64).reshape(12, 8), "last": _ints(1)},
    ),
    **{
        f"int8_{name.replace(' ', '_')}_{activations}": _quantise(name, activations)
        for name, activations in (
            *(("padded", "uint8"), ("padded", "int8"), ("picture", "uint8"), ("pointwise", "int8")),
            *(("depthwise", "uint8"), ("groups", "uint8"), ("relu", "int8"), ("two outputs a channel", "uint8")),
        )
    },
    "int8_product": _load(lambda: product(np.random.RandomState(0), "uint8", 1)),
    "int8_moved": _load(lambda: moved(np.random.RandomState(0))),
    "int8_dynamic": _write(
        "float[4, 48] x",
        """q, s, z = DynamicQuantizeLinear(x) m = MatMulInteger(q, w, z, zero) f = Cast<to=1>(m)
        t = Mul(s, step) g = Mul(f, t) y = Add(g, b)""",
        {
            "w": np.arange(48 * 32).reshape(48, 32).astype(np.int8),
            "zero": np.array(0, np.int8),
            "step": np.float32(2**-7),
            "b": (32,),
        },
    ),
}
