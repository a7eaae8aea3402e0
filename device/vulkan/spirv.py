"""What a compute shader in SPIR-V declares: its bindings, push constants, workgroup, and what it needs of the device.

Read from the module's words as the SPIR-V specification lays them out (version 1.6, sections 2.3 and 3). Drivers do not
check that a shader fits what it is given, so we do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from ...allocator.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ShaderBinding", "ShaderInterface", "read_interface"]

MAGIC, HEADER_WORDS = 0x07230203, 5
GL_COMPUTE = 5
LOCAL_SIZE, LOCAL_SIZE_ID = 17, 38
SPEC_ID, BUFFER_BLOCK, ARRAY_STRIDE, MATRIX_STRIDE, BUILT_IN, BINDING, DESCRIPTOR_SET, OFFSET = (
    1,
    3,
    6,
    7,
    11,
    33,
    34,
    35,
)
WORKGROUP_SIZE = 25
NAME = (0x6E69616D, 0)  # "main" and its end
UNIFORM_CONSTANT, UNIFORM, PUSH_CONSTANT, STORAGE_BUFFER = 0, 2, 9, 12
DIM_2D, DIM_3D = 1, 2
STORAGE = 2  # of an image type's operand "Sampled"

# VkFormat of SPIR-V's image formats, of those in `formats.FORMATS`; 0: the shader does not say.
IMAGE_FORMATS = {0: 0, 1: 109, 2: 97, 3: 100, 4: 37, 9: 76, 15: 9}

# Features by the capabilities that need them.
CAPABILITIES = {
    9: "shaderFloat16",
    10: "shaderFloat64",
    11: "shaderInt64",
    22: "shaderInt16",
    39: "shaderInt8",
    49: "shaderStorageImageExtendedFormats",
    55: "shaderStorageImageReadWithoutFormat",
    56: "shaderStorageImageWriteWithoutFormat",
    4433: "storageBuffer16BitAccess",
    4434: "uniformAndStorageBuffer16BitAccess",
    4435: "storagePushConstant16",
    4441: "variablePointers",
    4448: "storageBuffer8BitAccess",
    4449: "uniformAndStorageBuffer8BitAccess",
    4450: "storagePushConstant8",
    5345: "vulkanMemoryModel",
    5346: "vulkanMemoryModelDeviceScope",
    5347: "bufferDeviceAddress",
}


@dataclass(frozen=True)
class ShaderBinding:
    """What a shader declares at a binding.

    Attributes
    ----------
    letter
        As in `Pipeline`: ``"b"``, ``"i"`` or ``"t"``.
    volume
        A three-dimensional image.
    format
        VkFormat of a storage image, 0 if the shader does not say, -1 if it is none of `formats.FORMATS`.
    """

    letter: str
    volume: bool = False
    format: int = 0


@dataclass(frozen=True)
class ShaderInterface:
    """What a compute shader declares.

    Attributes
    ----------
    bindings
        By their numbers, of descriptor set 0.
    push_bytes
        Where the push constants end.
    workgroup
        Size in x, y and z: each a number and the id of the specialization constant that replaces it, or -1.
    wide_constants
        Ids of specialization constants that have not 32 bits.
    features
        Of the device, that it needs.
    """

    bindings: Mapping[int, ShaderBinding]
    push_bytes: int
    workgroup: tuple[tuple[int, int], ...]
    wide_constants: frozenset[int]
    features: frozenset[str]

    def require_fit(self, bindings: str, push_bytes: int, constants: Mapping[int, object]) -> None:
        """Refuse what is said about a shader if the shader says otherwise."""
        for number, binding in self.bindings.items():
            if number >= len(bindings):
                raise InputError(f"the shader has a binding {number}, bindings={bindings!r} says nothing about it")
            if bindings[number] != binding.letter:
                raise InputError(
                    f"binding {number} of the shader is {binding.letter!r}, bindings={bindings!r} says otherwise"
                )
        if self.push_bytes > push_bytes:
            raise InputError(f"the shader reads {self.push_bytes} bytes of push constants, push_bytes is {push_bytes}")
        for number in constants:
            if number in self.wide_constants:
                raise InputError(f"specialization constant {number} of the shader has not 32 bits")

    def workgroup_size(self, constants: Mapping[int, int | float | bool]) -> tuple[int, ...]:
        """Invocations in x, y and z of a workgroup, with these specialization constants."""
        return tuple(int(constants.get(number, value)) for value, number in self.workgroup)


@lru_cache(maxsize=512)
def read_interface(code: bytes) -> ShaderInterface:
    """Read what a module declares.

    Raises
    ------
    InputError
        No SPIR-V, cut off, without the entry point ``main`` of a compute shader, or with bindings of another kind than
        those of `Pipeline`.
    """
    if len(code) < 4 * HEADER_WORDS or len(code) % 4:
        raise InputError(f"{len(code)} bytes are no SPIR-V: it is a header of 20 bytes and words of 4")
    words = memoryview(code).cast("I")
    if words[0] != MAGIC:
        raise InputError(f"SPIR-V begins with 0x{MAGIC:08x}, this code with 0x{words[0]:08x}")
    module = _Module()
    try:
        module.read(words)
        return module.interface()
    except (IndexError, KeyError, RecursionError) as error:
        raise InputError("this SPIR-V is damaged: compile it again, and check it with spirv-val") from error


@dataclass
class _Module:
    """The declarations of a module, by the ids of what they declare."""

    entry: int = -1
    capabilities: set[int] = field(default_factory=set)
    local_size: tuple[int, ...] = ()
    local_size_ids: tuple[int, ...] = ()
    decorations: dict[tuple[int, int], int] = field(default_factory=dict)
    offsets: dict[tuple[int, int], int] = field(default_factory=dict)
    strides: dict[tuple[int, int], int] = field(default_factory=dict)
    types: dict[int, tuple[int, ...]] = field(default_factory=dict)  # the opcode and its operands
    constants: dict[int, tuple[int, int]] = field(default_factory=dict)  # type and value
    composites: dict[int, tuple[int, ...]] = field(default_factory=dict)
    variables: list[tuple[int, int, int]] = field(default_factory=list)  # type of the pointer, id, storage class

    def read(self, words: memoryview[int]) -> None:
        """Read the instructions before the first function: all that is declared."""
        position = HEADER_WORDS
        while position < len(words):
            count, opcode = words[position] >> 16, words[position] & 0xFFFF
            if count == 0 or position + count > len(words):
                raise IndexError
            if opcode == 54:  # OpFunction
                return
            self.declare(opcode, tuple(words[position + 1 : position + count]))
            position += count

    def declare(self, opcode: int, operands: tuple[int, ...]) -> None:
        """Take note of one instruction."""
        if opcode == 17:  # OpCapability
            self.capabilities.add(operands[0])
        elif opcode in (15, 16, 331):
            self.declare_entry(opcode, operands)
        elif opcode in (71, 72):
            self.decorate(opcode, operands)
        elif 19 <= opcode <= 33:  # OpType...
            self.types[operands[0]] = (opcode, *operands[1:])
        elif 43 <= opcode <= 51:
            self.declare_constant(opcode, operands)
        elif opcode == 59:  # OpVariable
            self.variables.append((operands[0], operands[1], operands[2]))

    def declare_entry(self, opcode: int, operands: tuple[int, ...]) -> None:
        """OpEntryPoint with model, id and name; OpExecutionMode and OpExecutionModeId."""
        if opcode == 15:
            if operands[0] == GL_COMPUTE and operands[2:4] == NAME:
                self.entry = operands[1]
        elif operands[0] == self.entry and operands[1] == LOCAL_SIZE:
            self.local_size = operands[2:5]
        elif operands[0] == self.entry and operands[1] == LOCAL_SIZE_ID:
            self.local_size_ids = operands[2:5]

    def decorate(self, opcode: int, operands: tuple[int, ...]) -> None:
        """OpDecorate and OpMemberDecorate."""
        if opcode == 71:
            self.decorations[operands[0], operands[1]] = operands[2] if len(operands) > 2 else 0
        elif operands[2] == OFFSET:
            self.offsets[operands[0], operands[1]] = operands[3]
        elif operands[2] == MATRIX_STRIDE:
            self.strides[operands[0], operands[1]] = operands[3]

    def declare_constant(self, opcode: int, operands: tuple[int, ...]) -> None:
        """Constants, and those that can be specialized."""
        if opcode in (43, 50):  # OpConstant, OpSpecConstant
            self.constants[operands[1]] = operands[0], operands[2]
        elif opcode in (48, 49):  # OpSpecConstantTrue, OpSpecConstantFalse
            self.constants[operands[1]] = operands[0], 49 - opcode
        elif opcode in (44, 51):  # OpConstantComposite, OpSpecConstantComposite
            self.composites[operands[1]] = operands[2:]

    def interface(self) -> ShaderInterface:
        """Put together what was read."""
        if self.entry < 0:
            raise InputError("the SPIR-V has no entry point 'main' of a compute shader")
        push_bytes = 0
        bindings: dict[int, ShaderBinding] = {}
        for pointer, variable, storage in self.variables:
            if storage in (UNIFORM_CONSTANT, UNIFORM, STORAGE_BUFFER):
                number = self.decorations[variable, BINDING]
                if self.decorations.get((variable, DESCRIPTOR_SET), 0) != 0:
                    raise InputError(f"binding {number} of the shader is of another descriptor set than 0")
                bindings[number] = self.binding(number, self.types[pointer][2], storage)
            elif storage == PUSH_CONSTANT:
                push_bytes = self.size(self.types[pointer][2])
        return ShaderInterface(
            bindings,
            push_bytes,
            self.workgroup(),
            frozenset(self.wide_constants()),
            frozenset(CAPABILITIES[capability] for capability in self.capabilities if capability in CAPABILITIES),
        )

    def binding(self, number: int, kind: int, storage: int) -> ShaderBinding:
        """What a variable of a type binds."""
        opcode, *operands = self.types[kind]
        if storage == STORAGE_BUFFER or (storage == UNIFORM and (kind, BUFFER_BLOCK) in self.decorations):
            if opcode == 30:
                return ShaderBinding("b")
        elif opcode == 27:  # OpTypeSampledImage
            image = self.types[operands[0]]
            if image[2] in (DIM_2D, DIM_3D) and not image[4] and not image[5]:
                return ShaderBinding("t", image[2] == DIM_3D)
        elif opcode == 25 and operands[1] in (DIM_2D, DIM_3D) and operands[3:6] == [0, 0, STORAGE]:
            return ShaderBinding("i", operands[1] == DIM_3D, IMAGE_FORMATS.get(operands[6], -1))
        raise InputError(
            f"binding {number} of the shader is no storage buffer, storage image or sampler of an image with two or "
            "three dimensions"
        )

    def size(self, kind: int) -> int:
        """Bytes of a type in a block."""
        opcode, *operands = self.types[kind]
        if opcode in (21, 22):  # OpTypeInt, OpTypeFloat
            return operands[0] // 8
        if opcode == 23:  # OpTypeVector
            return self.size(operands[0]) * operands[1]
        if opcode == 28:  # OpTypeArray
            return self.decorations[kind, ARRAY_STRIDE] * self.constants[operands[1]][1]
        if opcode == 30:  # OpTypeStruct
            return max((self.member_end(kind, index, member) for index, member in enumerate(operands)), default=0)
        raise InputError("push constants of numbers, vectors, matrices, arrays and structs are known, of no other type")

    def member_end(self, struct: int, index: int, member: int) -> int:
        """Where a member of a struct ends."""
        begin = self.offsets[struct, index]
        if self.types[member][0] == 24:  # OpTypeMatrix
            return begin + self.strides[struct, index] * self.types[member][2]
        return begin + self.size(member)

    def workgroup(self) -> tuple[tuple[int, int], ...]:
        """The workgroup's size; a constant decorated as such comes before what the entry point says."""
        ids = self.local_size_ids
        for (target, decoration), value in self.decorations.items():
            if decoration == BUILT_IN and value == WORKGROUP_SIZE:
                ids = self.composites[target]
        if ids:
            return tuple((self.constants[part][1], self.decorations.get((part, SPEC_ID), -1)) for part in ids)
        if len(self.local_size) != 3:
            raise InputError("the shader does not say how large its workgroups are")
        return tuple((size, -1) for size in self.local_size)

    def wide_constants(self) -> list[int]:
        """Specialization constants whose values are not 4 bytes."""
        return [
            number
            for (target, decoration), number in self.decorations.items()
            if decoration == SPEC_ID and self.width(self.constants[target][0]) != 32
        ]

    def width(self, kind: int) -> int:
        """Bits of a scalar type as a specialization constant: a bool is a VkBool32."""
        opcode, *operands = self.types[kind]
        return operands[0] if opcode in (21, 22) else 32
