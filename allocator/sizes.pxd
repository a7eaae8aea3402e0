from libc.stdint cimport int32_t, int64_t, uint8_t


cdef struct Instruction:
    int32_t opcode
    int32_t c
    int64_t a
    int64_t b


cdef class SizeProgram:
    cdef readonly int n_symbols
    cdef readonly int n_registers           # symbols first, then one for each instruction
    cdef int n_instructions
    cdef Instruction* code

    cdef int store(self, int position, instruction, bytearray kinds) except -1
    # Writes all n_registers; SizeOverflowError or ShapeError if the symbols have no sizes. Thread-safe.
    # The same for registers whose operands are known: known[i] != 0 for the symbols that are, and on return for all
    # registers. The others are 0.
    cdef int evaluate_known(self, int64_t* registers, uint8_t* known) except -1 nogil
    cdef int evaluate_into(self, const int64_t* symbols, int64_t* registers) except -1 nogil
