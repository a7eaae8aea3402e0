# distutils: language = c++
"""Delegates behind function tables, as the memory plan sees them."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from libcpp.string cimport string
from libcpp.vector cimport vector

from etarena.delegates.contract cimport Argument, ScratchUser
from etarena.delegates.python_table cimport take_exception
from etarena.delegates.table cimport (
    PAGE_BYTES, Place, ask_bytes, ask_sizes, ask_wishes, c_misfit, element_bytes, etarena_requirement, extra_room,
    moved_bytes,
)
from etarena.device.abi cimport ETARENA_TENSOR, etarena_argument

from etarena.allocator.errors import RuntimeFailure
from etarena.delegates.delegate_failures import delegate_failure

__all__ = ["ForeignUser"]

cdef extern from "staging.h" namespace "etarena" nogil:
    bint may_stage(const etarena_requirement& wish, const etarena_argument& argument, bint joined)
    int layout_misfit "(int)etarena::layout_misfit"(const etarena_requirement& wish, const etarena_argument& argument)

WHY = {1: "alignment", 2: "size_multiple", 3: "row_pitch", 6: "planned"}


cdef class ForeignUser(ScratchUser):
    """One call of a delegate behind a function table; valid as long as it is held."""

    cdef ScratchUser at_call(self, int instruction, bint only):
        """Every call has a place of its own."""
        cdef ForeignUser user = new_user(self.instance)
        user.instruction, user.watched, user.guarded = instruction, self.watched, self.guarded
        return user

    def watch(self, bint watched, bint guarded):
        """Say how calls are watched for writes past the end of their scratch."""
        self.watched, self.guarded = watched, guarded

    cdef int check_open(self) except -1:
        if not self.instance.get().open:
            raise RuntimeFailure(f"the delegate of backend {self.backend!r} is closed")
        return 0

    cdef int take(self, const vector[Argument]& arguments) except -1:
        """Fill what the table's functions are given; addresses are null."""
        cdef size_t i, start = 0
        cdef int32_t d
        cdef int64_t step
        cdef etarena_argument* filled
        cdef const Argument* given = arguments.data()
        cdef const Argument* argument
        self.check_open()
        self.arguments.resize(arguments.size())
        self.joined.resize(arguments.size())
        self.has_numbers = False
        for i in range(arguments.size()):
            start += arguments[i].rank
        self.strides.resize(start)
        start = 0
        for i in range(arguments.size()):
            argument, filled = &given[i], &self.arguments[i]
            memset(filled, 0, sizeof(etarena_argument))
            filled.struct_size, filled.kind, filled.dtype = sizeof(etarena_argument), argument.kind, argument.dtype
            filled.integer, filled.number, filled.rank = argument.integer, argument.number, argument.rank
            filled.sizes, filled.dim_order = argument.sizes, argument.dim_order
            filled.device.type, filled.device.index = argument.device_type, argument.device_index
            self.joined[i] = argument.joined
            if argument.kind != ETARENA_TENSOR:
                self.has_numbers = True
                continue
            filled.strides = self.strides.data() + start
            step = 1
            for d in range(argument.rank - 1, -1, -1):
                self.strides[start + argument.dim_order[d]] = <int32_t> step
                step *= max(argument.sizes[argument.dim_order[d]], 1)
            filled.nbytes = element_bytes(filled[0])
            for d in range(argument.rank):
                filled.nbytes *= max(argument.sizes[d], 0)
            start += argument.rank
        return 0

    cdef int ask(self, const vector[Argument]& arguments) except -1:
        """As the contract says."""
        cdef string reason
        cdef bint done
        self.take(arguments)
        with nogil:
            done = ask_wishes(
                self.instance.get()[0], self.arguments.data(), <uint32_t> self.arguments.size(), &reason
            )
        if not done:
            raise self.failure("requirements", reason)
        return 0

    cdef int64_t alignment_wish(self, size_t argument) noexcept:
        if argument >= self.instance.get().wishes.size():
            return 0
        return <int64_t> min(self.instance.get().wishes[argument].alignment, PAGE_BYTES)

    cdef int64_t size_wish(self, size_t argument) noexcept:
        if argument >= self.instance.get().wishes.size():
            return 0
        return <int64_t> self.instance.get().wishes[argument].size_multiple

    cdef int64_t measure(self, const vector[Argument]& arguments) except -1:
        """As the contract says; with what a canary and staged arguments need."""
        cdef string reason
        cdef uint64_t nbytes
        cdef bint done
        self.take(arguments)
        self.check_sizes()
        self.list_staged()
        with nogil:
            done = ask_bytes(
                self.instance.get()[0], self.arguments.data(), <uint32_t> self.arguments.size(), &nbytes, &reason
            )
        if not done:
            raise self.failure("scratch_bytes", reason)
        return <int64_t> (nbytes + self.extra())

    cdef int check_sizes(self) except -1:
        """Compare the shapes that the delegate gives its outputs with those of the plan."""
        cdef string reason
        cdef bint done
        cdef size_t i, start = 0
        cdef int32_t d
        with nogil:
            done = ask_sizes(
                self.instance.get()[0], self.arguments.data(), <uint32_t> self.arguments.size(), &self.expected,
                &reason,
            )
        if not done:
            raise self.failure("output_shapes", reason)
        for i in range(self.arguments.size()):
            if self.arguments[i].kind != ETARENA_TENSOR:
                continue
            for d in range(self.arguments[i].rank):
                if self.expected[start + d] != self.arguments[i].sizes[d]:
                    raise self.wrong_shape(i, start)
            start += self.arguments[i].rank
        return 0

    cdef object wrong_shape(self, size_t argument, size_t start):
        rank = self.arguments[argument].rank
        planned = [self.arguments[argument].sizes[d] for d in range(rank)]
        given = [self.expected[start + d] for d in range(rank)]
        return RuntimeFailure(
            f"delegate {self.backend!r} at instruction {self.instruction}: output_shapes gives argument {argument} the "
            f"shape {given}, in the model it has {planned}"
        )

    cdef int list_staged(self) except -1:
        """Note which arguments are copied, or may be: an address is known only when the call runs."""
        cdef size_t i
        cdef etarena_requirement wish
        self.staged = []
        for i in range(min(self.arguments.size(), self.instance.get().wishes.size())):
            wish = self.instance.get().wishes[i]
            if not may_stage(wish, self.arguments[i], self.joined[i]):
                continue
            if layout_misfit(wish, self.arguments[i]) != 0:
                self.staged.append((i, "row_pitch"))
            elif wish.memory != 0 and not self.joined[i]:
                self.staged.append((i, "planned"))
            elif wish.alignment > PAGE_BYTES or (wish.alignment > 1 and not self.joined[i]):
                self.staged.append((i, "alignment"))
            else:
                self.staged.append((i, "size_multiple"))
        return 0

    cdef uint64_t extra(self) noexcept:
        return extra_room(
            self.instance.get()[0], self.arguments.data(), <uint32_t> self.arguments.size(), self.joined.data(),
            self.watched,
        )

    cdef int place(self, const vector[Argument]& arguments, char* address, int64_t nbytes) except -1:
        cdef Place place
        self.take(arguments)
        place.instruction, place.address = self.instruction, address
        place.room, place.nbytes = nbytes, nbytes - min(self.extra(), <uint64_t> nbytes)
        place.joined, place.has_numbers = self.joined, self.has_numbers
        place.watched, place.guarded = self.watched, self.guarded
        self.instance.get().put(place)
        return 0

    cdef object failure(self, str step, string reason):
        """Describe a function that failed while a plan was made."""
        return delegate_failure(
            "planning", self.backend, step, (<bytes> reason).decode(errors="replace"), take_exception(),
            instruction=self.instruction,
        )

    def wishes(self, size_t argument):
        """Whether anything is wanted of an argument."""
        cdef etarena_requirement wish
        if argument >= self.instance.get().wishes.size():
            return False
        wish = self.instance.get().wishes[argument]
        layout = wish.alignment > 1 or wish.size_multiple > 1 or wish.row_pitch > 1
        return layout or wish.memory > 0 or wish.devices not in (0, 1)

    def misfits(self, tensors):
        """Give (argument, bytes to copy, name of the requirement) of the arguments that a call would have to copy.

        Parameters
        ----------
        tensors : sequence
            What `NativeMethod.tensor` and `NativeMethod.device` say of each argument.
        """
        cdef etarena_argument argument
        cdef vector[int32_t] sizes
        cdef vector[uint8_t] order
        cdef size_t i
        cdef int why
        cdef bint joined
        found = []
        for i, (tensor, device) in enumerate(tensors):
            if tensor is None or i >= self.instance.get().wishes.size():
                continue
            sizes, order = tensor[1], tensor[2]
            memset(&argument, 0, sizeof(etarena_argument))
            argument.kind, argument.dtype, argument.rank = ETARENA_TENSOR, tensor[0], <int32_t> sizes.size()
            argument.sizes, argument.dim_order = sizes.data(), order.data()
            argument.data, argument.nbytes = <void*> <size_t> tensor[4], tensor[5]
            argument.device.type, argument.device.index = device
            joined = i < self.joined.size() and self.joined[i]
            why = c_misfit(self.instance.get().wishes[i], argument, joined)
            if why in WHY:
                found.append((i, moved_bytes(self.instance.get().wishes[i], argument.nbytes), WHY[why]))
        return found

    cpdef bint take_outside(self):
        """Whether a call since the last time used memory that is not the plan's."""
        cdef bint found = self.instance.get().ran_outside
        self.instance.get().ran_outside = False
        return found

    cpdef list take_copies(self):
        """Give (instruction, argument, bytes, name of the requirement) of each copy since the last time."""
        cdef size_t i
        cdef list found = []
        for i in range(self.instance.get().copies.size()):
            found.append(
                (
                    self.instance.get().copies[i].instruction, self.instance.get().copies[i].argument,
                    self.instance.get().copies[i].nbytes, WHY[self.instance.get().copies[i].why],
                )
            )
        self.instance.get().copies.clear()
        return found


cdef ForeignUser new_user(shared_ptr[Instance] instance):
    cdef ForeignUser user = ForeignUser.__new__(ForeignUser)
    user.instance, user.instruction = instance, -1
    user.backend = (<bytes> instance.get().registration.get().name).decode()
    return user
