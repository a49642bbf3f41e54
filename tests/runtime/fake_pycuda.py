"""PyCUDA on a driver that only remembers: its objects are given back where they are dropped."""

import ctypes


class Error(Exception):
    """What PyCUDA raises."""


class FakePycuda:
    """As much of ``pycuda.driver`` as runs and captures a kernel."""

    Error = Error

    def __init__(self, cuda):
        class Owned:
            """Something of the driver's that its end gives back."""

            def __init__(self, kind, give_back):
                self.handle = next(cuda.numbers)
                self._give_back = give_back
                kind.add(self.handle) if isinstance(kind, set) else kind.update({self.handle: 1})

            def __del__(self):
                self._give_back(self.handle)

        class Context:
            push = staticmethod(lambda: cuda.cuCtxPushCurrent_v2(0xC0DE))
            pop = staticmethod(lambda: cuda.stack.pop())
            synchronize = staticmethod(lambda: None)

        class Stream(Owned):
            def __init__(self):
                super().__init__(cuda.streams, lambda handle: cuda._gone(cuda.streams, handle))

            def synchronize(self):
                pass

        class Memory:
            def __init__(self, size):
                where = ctypes.c_uint64()
                assert not cuda.cuMemAlloc_v2(ctypes.byref(where), size)
                self.where = where.value

            def __int__(self):
                return self.where

            def free(self):
                cuda.cuMemFree_v2(self.where)

        self.Context, self.Stream = Context, Stream
        self.mem_alloc = Memory
