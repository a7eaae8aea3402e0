# distutils: language = c++
"""The states that a method uses: their memory before a run, their new values after it.

Nothing of a state changes while a method runs, or everything at once after the whole call has succeeded: fixed states
and mutated inputs are copied from where their new values were computed, caches count entries that lie behind the old
ones already.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from libcpp.vector cimport vector

from etarena._binding cimport BoundShape, ShapeBinder
from etarena._inputs cimport InputReader
from etarena._runtime cimport NativeMethod, TensorView
from etarena.allocator.growing cimport GrowingBlock

from .allocator.errors import RuntimeFailure
from .allocator.plan import Kind


cdef class StateKeeper:
    """Serves one method.

    Parameters
    ----------
    section
        The method's plan section.
    binder
        Its shape binder, which knows which states grow.
    memory
        For each state of the section its `GrowingBlock`, None for those of fixed size.
    """

    def __cinit__(self, section, ShapeBinder binder not None, list memory not None):
        self.section, self.binder, self.memory = section, binder, memory
        self.placed.assign(binder.growing.size(), <char*> NULL)
        for state in section.states:
            if state.dim < 0 and state.result >= 0:
                self.write_backs.push_back(write_back(section, state.value, state.result, -1))
        for position, entry in enumerate(section.inputs):
            if entry.result >= 0:
                self.write_backs.push_back(write_back(section, entry.value, entry.result, position))
        self.has_growing = binder.growing.size() > 0 or any(block is not None for block in memory)
        self.has_new_values = self.has_growing or self.write_backs.size() > 0

    cdef int64_t count_bytes(self) except -1:
        cdef int64_t total = 0
        for block in self.memory:
            if block is not None:
                total += (<GrowingBlock> block).rows * (<GrowingBlock> block).row_bytes
        return total

    cdef int read_rows(self, int64_t* key) except -1:
        cdef int i
        for i in range(<int> self.binder.growing.size()):
            key[self.binder.state_start + i] = (<GrowingBlock> self.memory[self.binder.growing[i]]).rows
        return 0

    cdef int reserve_rows(self, BoundShape bound) except -1:
        cdef int i
        cdef GrowingBlock block
        for i in range(<int> self.binder.growing.size()):
            block = self.memory[self.binder.growing[i]]
            block.reserve_rows(bound.grown[i] // block.row_bytes if block.row_bytes else 0)
        return 0

    cdef int place_moved(self, NativeMethod native, vector[char*]& addresses) except -1:
        cdef int i, position, root
        cdef char* address
        for i in range(<int> self.binder.growing.size()):
            address = (<GrowingBlock> self.memory[self.binder.growing[i]]).address()
            if address == self.placed[i]:
                continue
            root = self.section.states[self.binder.growing[i]].value
            for position in range(<int> self.binder.storage.size()):
                if self.binder.storage[position] == root:
                    addresses[position] = address
                    native.set_address(position, address)
            self.placed[i] = address
        return 0

    cdef int commit_new_values(
        self, BoundShape bound, NativeMethod native, InputReader reader, char** addresses
    ) except -1:
        cdef vector[char*] sources
        cdef size_t staged = 0, at = 0
        cdef char* stage = NULL
        cdef WriteBack step
        cdef int i
        self.check_growth(bound, native)
        self.check(bound, native, &sources)
        for step in self.write_backs:
            if step.staged:
                staged += <size_t> bound.nbytes[step.source]
        if staged:
            stage = <char*> malloc(staged)
            if stage == NULL:
                raise MemoryError(f"{staged} bytes to exchange states")
        for i in range(<int> self.write_backs.size()):      # from here on nothing can fail
            step = self.write_backs[i]
            if step.staged:
                memcpy(stage + at, sources[i], <size_t> bound.nbytes[step.source])
                sources[i] = stage + at
                at += <size_t> bound.nbytes[step.source]
        self.written = 0
        for i in range(<int> self.write_backs.size()):
            step = self.write_backs[i]
            self.written += bound.nbytes[step.target]
            target = <char*> reader.address(step.input) if step.input >= 0 else addresses[step.target]
            memcpy(target, sources[i], <size_t> bound.nbytes[step.target])
        free(stage)
        for i in range(<int> self.binder.growing.size()):
            state = self.section.states[self.binder.growing[i]]
            if state.result >= 0:
                self.written += bound.nbytes[state.result] - bound.nbytes[state.value]
                (<GrowingBlock> self.memory[self.binder.growing[i]]).keep(
                    bound.sizes[self.binder.start[state.result] + state.dim], state.window
                )
        return 0

    cdef int check(self, BoundShape bound, NativeMethod native, vector[char*]* found) except -1:
        """Where each new value lies, once it is sure that it has the planned form."""
        cdef TensorView view
        cdef WriteBack step
        for step in self.write_backs:
            check_form(self.section, self.binder, bound, native, step.target, step.source, &view)
            found.push_back(<char*> view.data)
        return 0

    cdef int check_growth(self, BoundShape bound, NativeMethod native) except -1:
        cdef TensorView view
        cdef int i
        for i in range(<int> self.binder.growing.size()):
            state = self.section.states[self.binder.growing[i]]
            if state.result < 0:
                continue
            check_form(self.section, self.binder, bound, native, state.result, state.result, &view)
            if view.nbytes and view.data != <void*> self.placed[i]:
                raise RuntimeFailure(f"state {state.name!r} came out at another address than planned")
        return 0


cdef int check_form(
    object section, ShapeBinder binder, BoundShape bound, NativeMethod native, int target, int source, TensorView* view
) except -1:
    """The new value must have the planned sizes of what it becomes; an empty one may be sized as a kernel likes."""
    cdef int d, rank = binder.rank[target]
    native.view(section.values[source].index, view)
    same = view.rank == rank and all(view.sizes[d] == bound.sizes[binder.start[target] + d] for d in range(rank))
    if not same and (view.nbytes or bound.nbytes[target]):
        shape = [view.sizes[d] for d in range(view.rank)]
        expected = [bound.sizes[binder.start[target] + d] for d in range(rank)]
        raise RuntimeFailure(
            f"the new value of {section.values[target].name!r} came out with shape {shape} where the model says "
            f"{expected}: a kernel or delegate disagrees with PyTorch about an operator; nothing was written"
        )
    return 0


cdef WriteBack write_back(object section, int target, int source, int input):
    cdef WriteBack step
    step.target, step.source, step.input = target, source, input
    step.staged = section.values[source].kind in (Kind.STATE, Kind.INPUT)
    return step
