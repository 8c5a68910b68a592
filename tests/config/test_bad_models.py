"""Every mistake of models.yaml, with the exact message."""

# ruff: noqa: E501 - a message stands here as its reader sees it

from __future__ import annotations

from collections.abc import Callable

import pytest

SHA = "0" * 64
ONES = "1" * 64
NET = "models:\n  net:\n    source: {path: models/net.onnx}\n"

CASES: dict[str, tuple[str, str]] = {
    "misspelt key": (
        "models:\n  net:\n    sorce: {path: models/net.onnx}\n",
        'models.yaml:3:5: models.net.sorce: unknown key; expected enabled, source, inputs, sizes, pad, accuracy, keep, labels, postprocess, preprocess, quantize, simplify, targets or tolerance; did you mean "source"?',
    ),
    "unknown key far from any": (
        NET + "    zzz: 1\n",
        "models.yaml:4:5: models.net.zzz: unknown key; expected enabled, source, inputs, sizes, pad, accuracy, keep, labels, postprocess, preprocess, quantize, simplify, targets or tolerance",
    ),
    "misspelt top-level key": (
        "model:\n  net: {source: {path: models/net.onnx}}\n",
        'models.yaml:1:1: model: unknown key; expected defaults or models; did you mean "models"?',
    ),
    "no source": (
        "models:\n  net: {enabled: true}\n",
        'models.yaml:2:3: models.net: the key "source" is missing; expected source: where the ONNX file comes from: path; or url and sha256; or package, file and sha256; or hub, file and sha256; or export',
    ),
    "source without a kind": (
        "models:\n  net: {source: {}}\n",
        "models.yaml:2:9: models.net.source: none of the keys path, url, package, hub or export is there; expected a map with exactly one of the keys path, url, package, hub or export",
    ),
    "source with a misspelt kind": (
        "models:\n  net: {source: {paht: models/net.onnx}}\n",
        'models.yaml:2:18: models.net.source.paht: unknown key; expected arguments, export, file, files, hub, package, path, revision, sha256 or url; did you mean "path"?',
    ),
    "two sources": (
        "models:\n  net: {source: {path: models/net.onnx, url: 'https://x.org/n.onnx', sha256: '" + SHA + "'}}\n",
        "models.yaml:2:41: models.net.source.url: path and url exclude each other; expected a map with exactly one of the keys path, url, package, hub or export",
    ),
    "source is text": (
        "models:\n  net: {source: models/net.onnx}\n",
        'models.yaml:2:17: models.net.source: found "models/net.onnx"; expected a map with exactly one of the keys path, url, package, hub or export; did you mean "path: models/net.onnx"?',
    ),
    "url without sha256": (
        "models:\n  net: {source: {url: https://x.org/n.onnx}}\n",
        'models.yaml:2:9: models.net.source: the key "sha256" is missing; expected sha256: the file\'s own SHA-256',
    ),
    "url without scheme": (
        "models:\n  net: {source: {url: x.org/n.onnx, sha256: '" + SHA + "'}}\n",
        'models.yaml:2:23: models.net.source.url: "x.org/n.onnx" is not valid; expected a URL that starts with https:// or file://',
    ),
    "package without file and sha256": (
        "models:\n  net: {source: {package: magika==1.0.3}}\n",
        'models.yaml:2:9: models.net.source: the key "file" is missing; expected file: path of the file inside the wheel or sdist\nmodels.yaml:2:9: models.net.source: the key "sha256" is missing; expected sha256: the file\'s own SHA-256',
    ),
    "package without version": (
        "models:\n  net: {source: {package: magika, file: a/b.onnx, sha256: '" + SHA + "'}}\n",
        'models.yaml:2:27: models.net.source.package: "magika" is not valid; expected name==version, one exact version',
    ),
    "package file that climbs": (
        "models:\n  net: {source: {package: m==1, file: ../b.onnx, sha256: '" + SHA + "'}}\n",
        "models.yaml:2:39: models.net.source.file: \"../b.onnx\" is not valid; expected a path inside the distribution, without a leading '/' and '..'",
    ),
    "sha256 too short": (
        "models:\n  net: {source: {path: models/net.onnx, sha256: abc}}\n",
        'models.yaml:2:49: models.net.source.sha256: "abc" is not valid; expected 64 hexadecimal digits',
    ),
    "sha256 all digits": (
        "models:\n  net:\n    source:\n      path: models/net.onnx\n      sha256: " + ONES + "\n",
        "models.yaml:5:15: models.net.source.sha256: "
        + ONES
        + " is a number; expected text; write it as '"
        + ONES
        + "'",
    ),
    "absent file": (
        "models:\n  net:\n    source: {path: models/nett.onnx}\n",
        'models.yaml:3:20: models.net.source.path: the file models/nett.onnx does not exist; expected a path relative to the project\'s folder; did you mean "models/net.onnx"?',
    ),
    "source is a folder": (
        "models:\n  net: {source: {path: models}}\n",
        "models.yaml:2:24: models.net.source.path: models is a folder; expected a file",
    ),
    "path outside the project": (
        "models:\n  net: {source: {path: /somewhere/net.onnx}}\n",
        'models.yaml:2:24: models.net.source.path: "/somewhere/net.onnx" is an absolute path outside the project; expected a path relative to the project\'s folder',
    ),
    "bad name": (
        "models:\n  My Net: {source: {path: models/net.onnx}}\n",
        "models.yaml:2:3: models.\"My Net\": not a usable name; expected at most 64 small letters, digits, '_', '.' and '-', the first a letter or digit; did you mean \"my-net\"?",
    ),
    "name that climbs": (
        "models:\n  ../net: {source: {path: models/net.onnx}}\n",
        "models.yaml:2:3: models.\"../net\": not a usable name; expected at most 64 small letters, digits, '_', '.' and '-', the first a letter or digit; did you mean \"net\"?",
    ),
    "absent labels": (
        NET + "    labels: models/label.txt\n",
        'models.yaml:4:13: models.net.labels: the file models/label.txt does not exist; expected a path relative to the project\'s folder; did you mean "models/labels.txt"?',
    ),
    "negative tolerance": (
        NET + "    tolerance: {rtol: -1e-3}\n",
        "models.yaml:4:23: models.net.tolerance.rtol: -1e-3 is too small; expected at least 0",
    ),
    "tolerance is text": (
        NET + "    tolerance: {rtol: small}\n",
        'models.yaml:4:23: models.net.tolerance.rtol: found "small"; expected a number',
    ),
    "tolerance is infinite": (
        NET + "    tolerance: {rtol: .inf}\n",
        'models.yaml:4:23: models.net.tolerance.rtol: ".inf" is not a finite number; expected a finite number',
    ),
    "unknown dtype": (
        NET + "    inputs: {x: {dtype: float}}\n",
        'models.yaml:4:25: models.net.inputs.x.dtype: "float" is not valid; expected bool, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32 or uint64; did you mean "float32"?',
    ),
    "misspelt dtype": (
        NET + "    inputs: {x: {dtype: flaot32}}\n",
        'models.yaml:4:25: models.net.inputs.x.dtype: "flaot32" is not valid; expected bool, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32 or uint64; did you mean "float32"?',
    ),
    "dynamic dimension in shape": (
        NET + "    inputs: {x: {shape: [-1, 3]}}\n",
        "models.yaml:4:26: models.net.inputs.x.shape[0]: -1 is too small; expected at least 1",
    ),
    "shape is one number": (
        NET + "    inputs: {x: {shape: 3}}\n",
        'models.yaml:4:25: models.net.inputs.x.shape: found 3; expected a list; did you mean "[3]"?',
    ),
    "shape with text": (
        NET + "    inputs: {x: {shape: [N, 3]}}\n",
        "models.yaml:4:26: models.net.inputs.x.shape[0]: N has no sizes; expected a number, or `sizes: {N: [16, 64]}` beside `inputs`",
    ),
    "empty range": (
        NET + "    inputs: {x: {range: [1, 0]}}\n",
        "models.yaml:4:25: models.net.inputs.x.range: the range [1, 0) is empty; expected low below high",
    ),
    "range of three": (
        NET + "    inputs: {x: {range: [1, 2, 3]}}\n",
        "models.yaml:4:25: models.net.inputs.x.range: has 3 items; expected 2 items",
    ),
    "mean of two": (
        NET + "    preprocess: {mean: [0.1, 0.2]}\n",
        "models.yaml:4:24: models.net.preprocess.mean: has 2 items; expected 3, one for each channel of rgb",
    ),
    "std of zero": (
        NET + "    preprocess: {std: [0.1, 0, 0.1]}\n",
        "models.yaml:4:29: models.net.preprocess.std[1]: 0 is too small; expected more than 0",
    ),
    "unknown colour order": (
        NET + "    preprocess: {color: RGB}\n",
        'models.yaml:4:25: models.net.preprocess.color: "RGB" is not valid; expected rgb, bgr or gray; did you mean "rgb"?',
    ),
    "unknown resize": (
        NET + "    preprocess: {resize: letter-box}\n",
        'models.yaml:4:26: models.net.preprocess.resize: "letter-box" is not valid; expected stretch, letterbox or crop; did you mean "letterbox"?',
    ),
    "scale is no fraction": (
        NET + "    preprocess: {scale: one}\n",
        'models.yaml:4:25: models.net.preprocess.scale: "one" is not valid; expected a number or a fraction such as 1/255',
    ),
    "yaml 1.1 truth": (
        NET + "    enabled: no\n",
        'models.yaml:4:14: models.net.enabled: found "no"; expected true or false; did you mean "false"?',
    ),
    "repeated pass": (
        NET + "    simplify: {skip: [a, a]}\n",
        'models.yaml:4:26: models.net.simplify.skip[1]: "a" is repeated; expected each item once',
    ),
    "glob without a match": (
        NET + "    targets: {exclude: [cp, pc*]}\n",
        'models.yaml:4:25: models.net.targets.exclude[0]: "cp" matches no target of targets.yaml; expected a name or a glob',
    ),
    "glob in defaults without a match": (
        "defaults:\n  targets: {include: [gpu*]}\n" + NET,
        'models.yaml:2:23: defaults.targets.include[0]: "gpu*" matches no target of targets.yaml; expected a name or a glob',
    ),
    "glob is empty": (
        NET + "    targets: {include: ['']}\n",
        "models.yaml:4:25: models.net.targets.include[0]: is empty; expected at least one character",
    ),
    "globs are text": (
        NET + "    targets: {include: pc}\n",
        'models.yaml:4:24: models.net.targets.include: found "pc"; expected a list; did you mean "[pc]"?',
    ),
    "models is a list": (
        "models:\n  - net\n",
        "models.yaml:2:3: models: found a list; expected a map",
    ),
    "model is empty": (
        "models:\n  net:\n",
        "models.yaml:2:7: models.net: found nothing; expected a map",
    ),
    "key of a target in defaults": (
        "defaults:\n  tune: {trials: 1}\n" + NET,
        "models.yaml:2:3: defaults.tune: unknown key; expected enabled, simplify, targets or tolerance",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message_of_bad_models(name: str, load_mistakes: Callable[..., list[str]]) -> None:
    content, message = CASES[name]
    assert "\n".join(load_mistakes(models=content)) == message
