# distutils: language = c++
"""The symbols of a method, solved from the sizes of a call.

Each is given by one size of an input or one length of a growing state, as ``size == scale * symbol + offset``.
"""

from libc.stdint cimport int64_t

from etarena.allocator.checked cimport checked_divmod, checked_sub

from .allocator.errors import ShapeError
from .allocator.plan import Teller
from .allocator.plan_tables import Binding
from .shapes import illegal_length


cdef class Equations:
    """What determines the symbols that are known when a call begins.

    Parameters
    ----------
    section
        The method's plan section.
    place_of
        Where in the key the size of a binding or discovery is.
    """

    def __cinit__(self, section, place_of):
        self.section = section
        lengths = [discovery for discovery in section.discoveries if discovery.teller == Teller.STATE_LENGTH]
        self.sources = [*section.bindings, *lengths]
        for source in self.sources:
            symbol = section.symbols[source.symbol]
            self.equations.push_back(
                Equation(place_of(source), source.symbol, source.scale, source.offset, symbol.min, symbol.max)
            )

    cdef int solve(self, const int64_t* key, int64_t* symbols) except -1:
        """Fill in the symbols; ShapeError if one would be no whole number, or outside its limits."""
        cdef size_t i
        cdef int64_t difference = 0, number = 0, rest = 0
        cdef const Equation* equation
        for i in range(self.equations.size()):
            equation = &self.equations[i]
            if (
                checked_sub(key[equation.place], equation.offset, &difference) == 0
                and checked_divmod(difference, equation.scale, &number, &rest) == 0
                and rest == 0 and equation.smallest <= number <= equation.largest
            ):
                symbols[equation.symbol] = number
            else:
                symbols[equation.symbol] = self.explain(self.sources[i], key[equation.place])
        return 0

    def place_name(self, int position, int dim):
        """Name a dimension of an input as messages do."""
        name = self.section.inputs[position].name
        return f"input {name!r}" if dim < 0 else f"dimension {dim} of input {name!r}"

    cdef object explain(self, source, size):
        """Say why there is no solution; gives it if it only needs numbers of more than 64 bits on the way."""
        symbol = self.section.symbols[source.symbol]
        number, rest = divmod(size - source.offset, source.scale)
        is_legal = rest == 0 and symbol.min <= number <= symbol.max
        if is_legal:
            return number
        if not isinstance(source, Binding):
            raise illegal_length(self.section.states[source.value], size, symbol, source.scale)
        place = self.place_name(source.input, source.dim)
        if rest:
            form = f"{source.scale}*{symbol.name}" + (f" + {source.offset}" if source.offset else "")
            raise ShapeError(f"{place} is {size}, but must be {form} for a whole number {symbol.name}")
        limit = f"at least {symbol.min}" if number < symbol.min else f"at most {symbol.max}"
        raise ShapeError(f"{place} is {size}, but {symbol.name} must be {limit} (it is {number})")
