"""Offsets for buffers with known sizes and lifetimes, so that those live at the same time do not overlap.

The problem (dynamic storage allocation) is NP-hard, but the lists that models produce are not: buffers are placed by
first fit in the order of a rule, and the rules are tried one after the other until one reaches the lower bound. Placing
by decreasing "breadth" is the rule of TensorFlow Lite (Pisarchyk and Lee, Efficient Memory Management for Deep Neural
Net Inference, 2020), placing by size the classic of MNN, TVM and ExecuTorch. When all of them miss the bound, the
buffer that sets the peak is moved forward in the order and placing is tried again ("squeaky wheel" search, Joslin and
Clements, 1999), within a fixed amount of work, so that results do not depend on the speed of the machine.
"""

from cpython.array cimport array
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove, memset

from .arrays cimport int32s, int64s
from .exact cimport EXACT_FOUND, ExactSearch, clock_ns
from .lifetimes cimport Key, Lifetimes, grow, raise_memory, sort_keys
from .placement cimport Placement
from .rules cimport N_RULES, Rule, rule_at

from dataclasses import dataclass

from .errors import SizeOverflowError
from .exact import UNLIMITED
from .rules import RULES

__all__ = ["OffsetPlanner", "Plan"]

cdef enum:
    GIVEN = -1                          # "rule" of an order that the caller prefers
    EXACT = -2                          # and of one that the exact search found
    WORK_PER_EFFORT = 1000              # looks at a neighbour that repair may take, for each buffer
    LARGEST_EFFORT = 1_000_000
    PATIENCE = 64                       # failed moves after which repair starts again from the best order


@dataclass(frozen=True)
class Plan:
    """Offsets found by `plan_offsets`.

    Attributes
    ----------
    offsets : list of int
        Byte offset of each buffer; 0 for empty ones.
    peak : int
        Bytes that all of them together need: the largest ``offset + size``.
    lower_bound : int
        Largest sum of the sizes that live at one position; no plan can need less.
    order : list of int
        Buffers in the order in which they were placed; give it as `order` to get the same plan faster.
    rule : str
        Name of the rule that the order comes from, followed by ``" + repair"`` if it was improved by search;
        ``"given"`` for the caller's order, ``"exact"`` if exact search found it.
    """

    offsets: list[int]
    peak: int
    lower_bound: int
    order: list[int]
    rule: str


cdef class OffsetPlanner:
    """Plans many shapes of one model, reusing its scratch memory; not thread-safe.

    Parameters
    ----------
    alignment : int, optional
        Power of two; offsets are multiples of it. A buffer that is smaller is aligned to its size rounded up to a power
        of two (at least 16), so that it does not cost a whole line.
    effort : int, optional
        How much work repair may take when no rule reaches the lower bound: about a microsecond for each buffer and
        unit.
    rules : sequence of str, optional
        Which of `RULES` are tried; all by default.
    budget_ns : int, optional
        Time for a plan, in ns: what rules and repair leave of it goes to exact search, as long as the bound is not
        reached. 0 (the default) means no limit.
    max_nodes : int, optional
        How many nodes exact search may visit, some microseconds each. Plans are the same on every machine if this limit
        is met before the time is up. With neither limit there is no exact search.
    thorough : bool, optional
        Search on as long as the raw lower bound is missed, even if the bytes above it are lost to alignment.

    Raises
    ------
    ValueError
        The alignment is no power of two, effort, budget_ns or max_nodes is out of range, or there is no such rule.
    """

    def __cinit__(
        self,
        alignment: int = 64,
        *,
        effort: int = 1,
        rules: Sequence[str] = RULES,
        budget_ns: int = 0,
        max_nodes: int | None = None,
        thorough: bool = False,
    ):
        if not (0 < alignment <= 1 << 30 and alignment & (alignment - 1) == 0):
            raise ValueError(f"alignment {alignment} is no power of two up to 2**30")
        if not 0 <= effort <= LARGEST_EFFORT:
            raise ValueError(f"effort {effort} is out of range (expected 0 to {LARGEST_EFFORT})")
        if not 0 <= budget_ns < UNLIMITED or not 0 <= (max_nodes or 0) <= UNLIMITED:
            raise ValueError(f"budget_ns {budget_ns} or max_nodes {max_nodes} is out of range (expected 0 to 2**60)")
        for rule in rules:
            if rule not in RULES:
                raise ValueError(f"there is no rule {rule!r}; expected some of {', '.join(map(repr, RULES))}")
            self.rules |= 1 << RULES.index(rule)
        if not self.rules:
            raise ValueError("no rules to try")
        self.alignment = alignment
        self.effort = effort
        self.budget_ns = budget_ns
        self.exactly = budget_ns > 0 or max_nodes is not None
        self.max_nodes = UNLIMITED if max_nodes is None else max_nodes
        self.thorough = thorough
        self.winner = GIVEN
        self.lifetimes = Lifetimes()
        self.placement = Placement(self.lifetimes, alignment)

    def __dealloc__(self):
        free(self.order)
        free(self.best_order)
        free(self.best_offsets)
        free(self.keys)
        free(self.spare)

    def find(
        self,
        sizes: Sequence[int],
        first: Sequence[int],
        last: Sequence[int],
        *,
        pinned: Mapping[int, int] | None = None,
        order: Sequence[int] | None = None,
        alignments: Sequence[int] | None = None,
    ) -> Plan:
        """Plan offsets as `plan_offsets` does; cheaper when the lifetimes are those of the last call.

        `alignments` gives every buffer one of its own.
        """
        cdef int n = len(sizes)
        cdef int n_order = 0 if order is None else len(order)
        cdef int n_steps = 0 if alignments is None else n
        cdef int64_t peak = 0
        cdef int64_t lower_bound = 0
        if not len(first) == len(last) == n:
            raise ValueError(f"{n} sizes, {len(first)} first and {len(last)} last positions; expected as many of each")
        cdef array size_array = as_array("q", "sizes", sizes, n)
        cdef array first_array = as_array("i", "first", first, n)
        cdef array last_array = as_array("i", "last", last, n)
        cdef array order_array = as_array("i", "order", order or (), n_order)
        cdef array pin_array = as_array("q", "pinned", pins_as_list(pinned or {}, n), n)
        cdef array step_array = as_array("q", "alignments", checked_alignments(alignments, n), n_steps)
        cdef array offsets = array("q", bytes(8 * (n + 1)))
        cdef const int64_t* pins = int64s(pin_array) if pinned else NULL
        self.placement.alignments = int64s(step_array) if alignments is not None else NULL
        try:
            with nogil:
                self.plan_pinned(
                    n, int64s(size_array), int32s(first_array), int32s(last_array), int32s(order_array), n_order, pins,
                    int64s(offsets), &peak, &lower_bound,
                )
        finally:
            self.placement.alignments = NULL
        rule = {GIVEN: "given", EXACT: "exact"}.get(self.winner) or RULES[self.winner]
        return Plan(
            offsets=offsets.tolist()[:n],
            peak=peak,
            lower_bound=lower_bound,
            order=[self.best_order[i] for i in range(self.n_free)],
            rule=rule + " + repair" if self.repaired else rule,
        )

    cdef int plan(self, int n, const int64_t* sizes, const int32_t* first, const int32_t* last, const int32_t* order,
                  int n_order, int64_t* offsets, int64_t* peak, int64_t* lower_bound) except -1 nogil:
        return self.plan_pinned(n, sizes, first, last, order, n_order, NULL, offsets, peak, lower_bound)

    cdef int plan_pinned(self, int n, const int64_t* sizes, const int32_t* first, const int32_t* last,
                         const int32_t* order, int n_order, const int64_t* pinned, int64_t* offsets, int64_t* peak,
                         int64_t* lower_bound) except -1 nogil:
        cdef int64_t target
        cdef int64_t deadline = clock_ns() + self.budget_ns if self.budget_ns > 0 else INT64_MAX
        if n < 0 or n_order < 0:
            raise_count(n, n_order)
        if self.reserve(n) != 0:
            raise_memory()
        self.lifetimes.learn(n, first, last)
        self.placement.begin(n, sizes)
        self.lifetimes.measure(sizes, self.placement.steps, lower_bound, &target)
        self.pinned = pinned
        self.best_peak = INT64_MAX
        self.repaired = False
        self.winner = GIVEN
        if pinned is not NULL:
            target = max(target, self.placement.check_pins(pinned))
        self.take_order(order, n_order)
        if n_order > 0:
            self.attempt(INT64_MAX)
        self.search(self.unpadded(n, target, lower_bound[0]))
        self.repair(target)
        if self.exactly:
            self.refine(lower_bound[0] if self.thorough else target, self.max_nodes, deadline)
        memcpy(offsets, self.best_offsets, n * sizeof(int64_t))
        peak[0] = self.best_peak
        return 0

    cdef bint plan_exactly(self, int64_t target, int64_t limit, int64_t max_nodes, int64_t* offsets,
                           int64_t* peak) except -1 nogil:
        cdef int64_t former = self.best_peak
        self.best_peak = min(former, limit + 1)
        if self.refine(target, max_nodes, INT64_MAX) == 0:
            self.best_peak = former
            return False
        memcpy(offsets, self.best_offsets, self.lifetimes.n * sizeof(int64_t))
        peak[0] = self.best_peak
        return True

    cdef int64_t unpadded(self, int n, int64_t target, int64_t lower_bound) noexcept nogil:
        """What the rules aim at: where buffers are small it counts that the topmost one needs no padding."""
        cdef int i
        cdef int64_t padding = 0
        cdef int64_t close = lower_bound + lower_bound // 100
        if target <= close:
            return target
        for i in range(n):
            padding = max(padding, -self.placement.sizes[i] & (self.placement.steps[i] - 1))
        return min(target, max(target - padding, close))

    cdef void search(self, int64_t target) noexcept nogil:
        """Try the rules until one reaches the target."""
        cdef int rule
        for rule in range(N_RULES):
            if self.best_peak <= target:
                return
            if self.rules >> rule & 1:
                self.list_free()
                self.sort_by_rule(rule, 0)
                if self.attempt(self.best_peak) == self.n_free:
                    self.winner = rule

    cdef void repair(self, int64_t target) noexcept nogil:
        """Move whatever sets the peak forward in the best order, and try again."""
        cdef uint64_t random = 0x9E3779B97F4A7C15
        cdef int64_t end = self.placement.work + <int64_t>self.effort * WORK_PER_EFFORT * self.n_free
        cdef int position, destination
        cdef int failures = 0
        cdef int32_t culprit
        memcpy(self.order, self.best_order, self.n_free * sizeof(int32_t))
        while self.best_peak > target and self.placement.work < end:
            position = self.attempt(self.best_peak)
            if position == self.n_free:
                self.repaired = True
                failures = 0
                continue
            failures += 1
            if failures > PATIENCE:
                memcpy(self.order, self.best_order, self.n_free * sizeof(int32_t))
                failures = 0
            random ^= random << 13
            random ^= random >> 7
            random ^= random << 17
            destination = 0 if position == 0 else <int>(random % <uint64_t>position)
            culprit = self.order[position]
            memmove(self.order + destination + 1, self.order + destination, (position - destination) * sizeof(int32_t))
            self.order[destination] = culprit

    cdef int refine(self, int64_t target, int64_t max_nodes, int64_t deadline) except -1 nogil:
        """Search exactly within what is left; gives whether that found a better plan."""
        cdef int i
        if self.best_peak <= target:
            return 0
        if self.exact is None:
            with gil:
                self.exact = ExactSearch()
        if not self.exact.prepare(
            self.lifetimes.n, self.placement.sizes, self.placement.steps, self.pinned, NULL, self.lifetimes.first,
            self.lifetimes.last,
        ):
            return 0
        if self.exact.improve(target, &self.best_peak, max_nodes, deadline, self.best_offsets) == EXACT_FOUND:
            self.winner = EXACT
            self.repaired = False
            self.sort_by_offset()
            for i in range(self.lifetimes.n):   # empty buffers were not part of the search
                if self.pinned is not NULL and self.pinned[i] >= 0:
                    self.best_offsets[i] = self.pinned[i]
            return 1
        return 0

    cdef void sort_by_offset(self) noexcept nogil:
        """First fit in this order puts every buffer at its offset or below."""
        cdef int k
        for k in range(self.n_free):
            self.keys[k] = Key(-<double>self.best_offsets[self.best_order[k]], 0, self.best_order[k])
        sort_keys(self.keys, self.spare, self.n_free)
        for k in range(self.n_free):
            self.best_order[k] = self.keys[k].index

    cdef int attempt(self, int64_t limit) noexcept nogil:
        """Place everything in the current order; if it ends below the limit, keep it. Gives n_free if so."""
        cdef int i, position
        cdef int64_t peak = 0
        self.placement.clear()
        if self.pinned is not NULL:
            for i in range(self.lifetimes.n):
                if self.pinned[i] >= 0:
                    self.placement.put(i, self.pinned[i])
                    if self.placement.sizes[i] > 0:
                        peak = max(peak, self.pinned[i] + self.placement.sizes[i])
        position = self.placement.place(self.order, self.n_free, limit, &peak)
        if position == self.n_free:
            self.best_peak = peak
            memcpy(self.best_order, self.order, self.n_free * sizeof(int32_t))
            for i in range(self.lifetimes.n):
                self.best_offsets[i] = self.placement.spans[i].offset
        return position

    cdef int take_order(self, const int32_t* order, int n_order) except -1 nogil:
        """Start with the order given, completed by the first rule; all buffers but the pinned ones."""
        cdef int32_t i
        cdef int k
        cdef int n = self.lifetimes.n
        cdef int32_t* seen = self.best_order
        memset(seen, 0, n * sizeof(int32_t))
        self.n_free = 0
        for k in range(n_order):
            i = order[k]
            if not 0 <= i < n or seen[i]:
                raise_order(k, i, n)
            seen[i] = True
            if self.pinned is NULL or self.pinned[i] < 0:
                self.order[self.n_free] = i
                self.n_free += 1
        k = self.n_free
        for i in range(n):
            if not seen[i] and (self.pinned is NULL or self.pinned[i] < 0):
                self.order[self.n_free] = i
                self.n_free += 1
        if n_order > 0:
            self.sort_by_rule(0, k)
        return 0

    cdef void sort_by_rule(self, int rule, int start) noexcept nogil:
        """Sort the order from `start` on."""
        cdef int k
        cdef int n = self.n_free - start
        cdef Rule fill = rule_at(rule)
        for k in range(n):
            self.keys[k].index = self.order[start + k]
            fill(self.lifetimes, self.placement.sizes, self.keys[k].index, &self.keys[k])
        sort_keys(self.keys, self.spare, n)
        for k in range(n):
            self.order[start + k] = self.keys[k].index

    cdef void list_free(self) noexcept nogil:
        """Start again with all buffers but the pinned ones, in index order."""
        cdef int32_t i
        cdef int k = 0
        for i in range(self.lifetimes.n):
            if self.pinned is NULL or self.pinned[i] < 0:
                self.order[k] = i
                k += 1

    cdef int reserve(self, int n) noexcept nogil:
        cdef size_t count = n + n // 2 + 1
        if n <= self.capacity:
            return 0
        self.capacity = 0
        if (
            grow(<void**>&self.order, count * sizeof(int32_t)) != 0
            or grow(<void**>&self.best_order, count * sizeof(int32_t)) != 0
            or grow(<void**>&self.best_offsets, count * sizeof(int64_t)) != 0
            or grow(<void**>&self.keys, count * sizeof(Key)) != 0
            or grow(<void**>&self.spare, count * sizeof(Key)) != 0
        ):
            return -1
        self.capacity = count
        return 0


cdef array as_array(str code, str name, values, int n):
    """The values as an array with one more element at the end, so that it has an address even when empty."""
    try:
        result = array(code, values)
    except OverflowError:
        raise SizeOverflowError(f"{name}: a number does not fit {32 if code == 'i' else 64} bits") from None
    if len(result) != n:                # bytes, or a sequence that is not as long as it says
        raise ValueError(f"{name}: {len(result)} numbers in a sequence of length {n}; expected a sequence of int")
    result.append(0)
    return result


cdef checked_alignments(alignments, int n):
    if alignments is None:
        return ()
    if len(alignments) != n:
        raise ValueError(f"{len(alignments)} alignments for {n} buffers; expected one for each")
    for i, step in enumerate(alignments):
        if not (0 < step <= 1 << 30 and step & (step - 1) == 0):
            raise ValueError(f"alignment {step} of buffer {i} is no power of two up to 2**30")
    return alignments


cdef list pins_as_list(pinned, int n):
    offsets = [-1] * n
    for i, offset in pinned.items():
        if not (0 <= i < n and offset >= 0):
            raise ValueError(f"pinned: {offset} is no offset of one of {n} buffers (buffer {i})")
        offsets[i] = offset
    return offsets


cdef int raise_order(int k, int32_t i, int n) except -1 with gil:
    raise ValueError(f"order[{k}]: buffer {i} comes twice or is not one of {n} buffers")


cdef int raise_count(int n, int n_order) except -1 with gil:
    raise ValueError(f"{n} buffers, {n_order} of them ordered: a number is negative")
