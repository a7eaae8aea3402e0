# distutils: language = c++
"""The plan of what is left of a run, once data has told a size.

Buffers that hold something at this point stay where they are; what comes later is planned anew around them. Where that
costs more than a hundredth of the lower bound, and more than the run has needed so far, they may move as well.
"""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from etarena._binding cimport MOVE, RESTORE, SAVE, UNKNOWN, BoundShape, Move, ShapeBinder, now_ns

from .allocator.errors import PlanError, ShapeError

cdef enum:
    ACTIVATION = 0
    OUTPUT = 2


cdef class StagePlanner:
    """Plans the stages of one method.

    Parameters
    ----------
    binder
        The method's shape binder, whose planner and size program are used.
    """

    def __cinit__(self, ShapeBinder binder not None):
        cdef int i, count = <int> binder.planned.size()
        self.binder = binder
        self.place_of.assign(binder.rank.size(), -1)
        for i in range(count):
            self.place_of[binder.planned[i]] = i
        self.sizes.resize(binder.buffers() + 1)
        self.pins.resize(binder.buffers() + 1)
        self.offsets.resize(binder.buffers() + 1)

    cdef BoundShape advance(self, BoundShape before, int position, const int64_t* numbers, const uint8_t* told):
        """Plan the stage that begins at instruction `position`, with what data has told so far.

        Raises
        ------
        ShapeError
            If a number is outside the model's limits or breaks a condition.
        """
        cdef int64_t begin = now_ns()
        cdef BoundShape bound = BoundShape.__new__(BoundShape)
        self.take_told(before, numbers, told, bound.registers, bound.known)
        self.binder.evaluate(bound)
        self.binder.measure(bound)
        self.binder.measure_scratch(bound, before)
        self.place(bound, before, position)
        self.list_changes(bound, before)
        self.list_moves(bound, before)
        bound.stage = before.stage + 1
        bound.moved_bytes += before.moved_bytes
        bound.run_peak = max(before.run_peak, bound.peak)
        bound.run_bound = max(before.run_bound, self.binder.largest_live(bound))
        bound.plan_ns = now_ns() - begin
        return bound

    cdef int take_told(
        self, BoundShape before, const int64_t* numbers, const uint8_t* told, vector[int64_t]& symbols,
        vector[uint8_t]& known
    ) except -1:
        """Fill the symbols: those of inputs as before, the others as told."""
        cdef int i
        symbols.assign(before.registers.size(), 0)
        known.assign(before.registers.size(), 0)
        for i in range(<int> self.binder.told.size()):
            if not self.binder.told[i]:
                symbols[i], known[i] = before.registers[i], before.known[i]
            elif told[i]:
                symbols[i], known[i] = numbers[i], 1
                if not before.known[i] or before.registers[i] != numbers[i]:
                    self.check_range(i, numbers[i])
        return 0

    def check_range(self, int position, number):
        """Refuse a number outside the limits of its symbol."""
        symbol = self.binder.section.symbols[position]
        if symbol.min <= number <= symbol.max:
            return
        limit = f"at least {symbol.min}" if number < symbol.min else f"at most {symbol.max}"
        raise ShapeError(f"{self.origin_of(position)} gives {symbol.name} = {number}, but it must be {limit}")

    def origin_of(self, int position):
        """Name the operator that tells a symbol."""
        origins = [entry.origin for entry in self.binder.section.discoveries if entry.symbol == position]
        return origins[0] or "the data"

    cdef int place(self, BoundShape bound, BoundShape before, int position) except -1:
        """Offsets of what lives from here on; what is over keeps its own."""
        cdef ShapeBinder binder = self.binder
        cdef int i
        cdef int64_t peak, lower_bound
        cdef bint is_live, has_pins = False
        for i in range(binder.buffers()):
            is_live = binder.first[i] < position
            self.pins[i] = -1
            self.sizes[i] = binder.bytes_of(bound, i)
            if binder.last[i] <= position:
                self.sizes[i] = 0
            # A buffer that grows was told another size in the last round of a loop: what is in it is over.
            if is_live and self.sizes[i] > 0 and self.sizes[i] <= binder.bytes_of(before, i):
                self.pins[i] = before.offsets[i]
                has_pins = True
        self.plan(self.pins.data() if has_pins else NULL, &bound.peak, &bound.lower_bound)
        bound.offsets = before.offsets
        self.keep_offsets(bound)
        if has_pins and bound.peak > max(bound.lower_bound + bound.lower_bound // 100, before.run_peak):
            self.plan(NULL, &peak, &lower_bound)
            if peak < bound.peak:
                bound.peak = peak
                self.keep_offsets(bound)
        return 0

    cdef void keep_offsets(self, BoundShape bound) noexcept:
        cdef int i
        for i in range(self.binder.buffers()):
            if self.sizes[i] > 0:
                bound.offsets[i] = self.offsets[i]

    cdef int plan(self, const int64_t* pins, int64_t* peak, int64_t* lower_bound) except -1:
        cdef ShapeBinder binder = self.binder
        cdef int count = binder.buffers()
        binder.scratch.align(binder.planner, binder.planned, self.sizes.data())
        try:
            with nogil:
                binder.planner.plan_pinned(
                    count, self.sizes.data(), binder.first.data(), binder.last.data(), binder.crossing.data(),
                    <int> binder.crossing.size(), pins, self.offsets.data(), peak, lower_bound,
                )
        except ValueError as error:
            raise PlanError(f"values: buffers that are live at a stop overlap ({error})") from error
        return 0

    cdef void list_changes(self, BoundShape bound, BoundShape before) noexcept:
        """Values with another size or place than before, and outputs that need memory from here on."""
        cdef ShapeBinder binder = self.binder
        cdef int position, owner, i, place
        cdef bint changed
        for position in range(<int> binder.rank.size()):
            owner = binder.storage[position]
            changed = bound.ready[position] != before.ready[position]
            for i in range(binder.start[position], binder.start[position] + binder.rank[position]):
                changed = changed or bound.sizes[i] != before.sizes[i]
            if binder.kind[position] == ACTIVATION:
                place = self.place_of[owner]
                changed = changed or bound.offsets[place] != before.offsets[place]
            elif binder.kind[position] == OUTPUT:
                if bound.nbytes[owner] > before.nbytes[owner] or bound.ready[owner] != before.ready[owner]:
                    changed = True
                    if owner == position and bound.ready[owner] != UNKNOWN:
                        if bound.nbytes[owner] > before.nbytes[owner] or before.ready[owner] == UNKNOWN:
                            bound.appeared.push_back(owner)
            if changed:
                bound.changed.push_back(position)
        for i in range(<int> bound.scratch.size()):
            place = <int> binder.planned.size() + i
            changed = bound.scratch[i] != before.scratch[i] or bound.offsets[place] != before.offsets[place]
            if changed or binder.call_changed(bound, before, i):
                bound.changed_calls.push_back(i)

    cdef void list_moves(self, BoundShape bound, BoundShape before) noexcept:
        """Order the copies of live buffers to new places so that none overwrites what is still to be copied.

        Where they wait for each other in a circle, one is put aside first.
        """
        cdef vector[Move] waiting, aside
        cdef Move move
        cdef int i, k, chosen, smallest
        cdef int64_t saved = 0
        for i in range(<int> self.binder.planned.size()):
            if self.pins[i] >= 0 and bound.offsets[i] != before.offsets[i]:
                waiting.push_back(Move(before.offsets[i], bound.offsets[i], self.sizes[i], MOVE))
                bound.moved_bytes += self.sizes[i]
        while waiting.size() > 0:
            chosen, smallest = -1, 0
            for k in range(<int> waiting.size()):
                if waiting[k].nbytes < waiting[smallest].nbytes:
                    smallest = k
                if chosen < 0 and is_free(waiting, k):
                    chosen = k
            move = waiting[chosen if chosen >= 0 else smallest]
            waiting.erase(waiting.begin() + (chosen if chosen >= 0 else smallest))
            if chosen >= 0:
                bound.moves.push_back(move)
            else:
                bound.moves.push_back(Move(move.source, saved, move.nbytes, SAVE))
                aside.push_back(Move(saved, move.target, move.nbytes, RESTORE))
                saved += move.nbytes
        for k in range(<int> aside.size()):
            bound.moves.push_back(aside[k])
        bound.aside_bytes = saved


cdef bint is_free(const vector[Move]& waiting, int which) noexcept:
    """Whether nothing else that is still to be copied lies where a buffer goes."""
    cdef int64_t begin = waiting[which].target
    cdef int64_t end = begin + waiting[which].nbytes
    cdef int k
    for k in range(<int> waiting.size()):
        if k != which and waiting[k].source < end and waiting[k].source + waiting[k].nbytes > begin:
            return False
    return True
