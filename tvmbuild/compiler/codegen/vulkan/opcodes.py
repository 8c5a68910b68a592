"""Numbers of SPIR-V 1.3, of its GLSL.std.450 instructions and of the dot products in SPV_KHR_integer_dot_product.

Source: the specifications in the Khronos registry.
"""

from __future__ import annotations

from enum import IntEnum


class Op(IntEnum):
    """Instructions of SPIR-V."""

    EXTENSION = 10
    EXT_INST_IMPORT = 11
    EXT_INST = 12
    MEMORY_MODEL = 14
    ENTRY_POINT = 15
    EXECUTION_MODE = 16
    CAPABILITY = 17
    TYPE_VOID = 19
    TYPE_BOOL = 20
    TYPE_INT = 21
    TYPE_FLOAT = 22
    TYPE_VECTOR = 23
    TYPE_ARRAY = 28
    TYPE_RUNTIME_ARRAY = 29
    TYPE_STRUCT = 30
    TYPE_POINTER = 32
    TYPE_FUNCTION = 33
    CONSTANT_TRUE = 41
    CONSTANT_FALSE = 42
    CONSTANT = 43
    FUNCTION = 54
    FUNCTION_END = 56
    VARIABLE = 59
    LOAD = 61
    STORE = 62
    ACCESS_CHAIN = 65
    DECORATE = 71
    MEMBER_DECORATE = 72
    COMPOSITE_CONSTRUCT = 80
    COMPOSITE_EXTRACT = 81
    CONVERT_F_TO_U = 109
    CONVERT_F_TO_S = 110
    CONVERT_S_TO_F = 111
    CONVERT_U_TO_F = 112
    U_CONVERT = 113
    S_CONVERT = 114
    F_CONVERT = 115
    BITCAST = 124
    F_NEGATE = 127
    I_ADD = 128
    F_ADD = 129
    I_SUB = 130
    F_SUB = 131
    I_MUL = 132
    F_MUL = 133
    U_DIV = 134
    S_DIV = 135
    F_DIV = 136
    U_MOD = 137
    LOGICAL_EQUAL = 164
    LOGICAL_NOT_EQUAL = 165
    LOGICAL_OR = 166
    LOGICAL_AND = 167
    LOGICAL_NOT = 168
    SELECT = 169
    I_EQUAL = 170
    I_NOT_EQUAL = 171
    U_GREATER_THAN = 172
    S_GREATER_THAN = 173
    U_GREATER_EQUAL = 174
    S_GREATER_EQUAL = 175
    U_LESS_THAN = 176
    S_LESS_THAN = 177
    U_LESS_EQUAL = 178
    S_LESS_EQUAL = 179
    F_ORD_EQUAL = 180
    F_UNORD_NOT_EQUAL = 183
    F_ORD_LESS_THAN = 184
    F_ORD_GREATER_THAN = 186
    F_ORD_LESS_EQUAL = 188
    F_ORD_GREATER_EQUAL = 190
    SHIFT_RIGHT_LOGICAL = 194
    SHIFT_RIGHT_ARITHMETIC = 195
    SHIFT_LEFT_LOGICAL = 196
    BITWISE_OR = 197
    BITWISE_XOR = 198
    BITWISE_AND = 199
    CONTROL_BARRIER = 224
    PHI = 245
    LOOP_MERGE = 246
    SELECTION_MERGE = 247
    LABEL = 248
    BRANCH = 249
    BRANCH_CONDITIONAL = 250
    RETURN = 253
    S_DOT = 4450


class Glsl(IntEnum):
    """Instructions of GLSL.std.450."""

    ROUND_EVEN = 2
    TRUNC = 3
    F_ABS = 4
    FLOOR = 8
    CEIL = 9
    SQRT = 31
    INVERSE_SQRT = 32
    F_MIN = 37
    U_MIN = 38
    S_MIN = 39
    F_MAX = 40
    U_MAX = 41
    S_MAX = 42


class Capability(IntEnum):
    """Capabilities that a device must have."""

    SHADER = 1
    FLOAT16 = 9
    FLOAT64 = 10
    INT64 = 11
    STORAGE_BUFFER_16BIT_ACCESS = 4433
    STORAGE_BUFFER_8BIT_ACCESS = 4448
    DOT_PRODUCT_INPUT_4X8BIT_PACKED = 6018
    DOT_PRODUCT = 6019


class Storage(IntEnum):
    """Storage classes of variables."""

    INPUT = 1
    WORKGROUP = 4
    FUNCTION = 7
    PUSH_CONSTANT = 9
    STORAGE_BUFFER = 12


class Decoration(IntEnum):
    """Decorations of types, variables and results."""

    BLOCK = 2
    ARRAY_STRIDE = 6
    BUILT_IN = 11
    RESTRICT = 19
    ALIASED = 20
    NON_WRITABLE = 24
    BINDING = 33
    DESCRIPTOR_SET = 34
    OFFSET = 35
    NO_CONTRACTION = 42


VERSION = 0x00010300
MAGIC = 0x07230203
NUM_WORKGROUPS, WORKGROUP_ID, LOCAL_INVOCATION_ID = 24, 26, 27
"""The numbers of the built-in variables."""
COMPUTE, LOCAL_SIZE = 5, 17
"""The execution model, and the execution mode that gives the number of threads in a group."""
LOGICAL, GLSL450 = 0, 1
"""The addressing model and the memory model."""
WORKGROUP_SCOPE, SHARED_MEMORY_ORDER = 2, 0x108
"""The scope and the semantics of a barrier: acquire, release, and the workgroup's memory."""
NO_CONTROL, UNROLL = 0, 1
PACKED_4X8BIT = 0
"""The format of a dot product's operands: four bytes each."""
