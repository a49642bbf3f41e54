"""Random bodies of kernels over common memory, for the search for races in `races`.

What the barrier pass may take for granted holds in what is drawn: one statement writes a buffer,
and each element of it from one thread.
"""

import random

from races import ONE, Kernel, register, shared

from autotune.ir.expr import EQ, LT, And, IntImm, Load, Ramp, Var
from autotune.ir.stmt import For, ForKind, If, LetStmt, Store, seq
from autotune.lowering.passes.ownership import Slot


class Draw:
    """A random body: producers and consumers in loops, under conditions, in rings of slots."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.kernel = Kernel(self.rng.choice([(4,), (3,), (2, 3), (1, 4), (2, 2), (8,)]))
        self.buffers = []
        self.loops = []
        self.lets = {}  # names, with their least and their greatest values
        self.last = {}  # values of the variables of all loops so far

    def body(self):
        """The statements of the kernel."""
        return seq(*[self.stmt(3) for _ in range(self.rng.randint(1, 3))])

    def stmt(self, depth):
        """A loop, a branch, or something that touches memory."""
        choice = self.rng.random()
        if depth and choice < 0.35:
            return self.loop(depth)
        if depth and choice < 0.5:
            other = self.sequence(depth - 1) if self.rng.random() < 0.1 else None
            return If(self.condition(), self.sequence(depth - 1), other)
        if depth and choice < 0.55:
            return self.let(depth)
        if choice < 0.78 or not self.buffers:
            return self.producer()
        return self.consumer()

    def sequence(self, depth):
        """Some statements, one after another."""
        return seq(*[self.stmt(depth) for _ in range(self.rng.randint(1, 3))])

    def loop(self, depth):
        """A loop, perhaps over the variable of one that is over."""
        kind = self.rng.choice([ForKind.SERIAL, ForKind.UNROLLED])
        over = [var for var in self.last if var not in self.loops]
        if over and self.rng.random() < 0.3:
            var = self.rng.choice(over)
            return For(var, self.last[var] + 1, kind, self.inside(depth, var))
        extent = self.rng.choice([1, 2, 3, 4, 5])

        def make(var):
            self.last[var] = extent - 1
            return self.inside(depth, var)

        return self.kernel.loop(extent, make, kind)

    def inside(self, depth, var):
        """The body of a loop."""
        self.loops.append(var)
        body = self.sequence(depth - 1)
        self.loops.pop()
        return body

    def let(self, depth):
        """Statements with a name for a multiple of a loop or a thread."""
        of, k = self.rng.choice([*self.kernel.vars, *self.loops]), self.rng.choice([1, 2, 4, -1])
        last = {**self.last, **{each.var: each.extent - 1 for each in self.kernel.threads}}
        name, ends = Var("x"), sorted([0, k * last[of]])
        self.kernel.simplifier.bind(name, *ends)
        self.lets[name] = ends
        body = self.sequence(depth - 1)
        del self.lets[name]
        return LetStmt(name, of * k, body)

    def condition(self):
        """A condition on threads and loops, or on what is read."""
        if self.buffers and self.rng.random() < 0.2:
            return LT(self.value(), IntImm(1))
        first, second = self.limit(), self.limit()
        return And(first, second) if self.rng.random() < 0.3 else first

    def limit(self):
        """A condition on a thread or a loop, or on the sum of one and a loop."""
        limited = self.rng.choice([*self.kernel.vars, *self.loops, *self.loops])
        if self.loops and self.rng.random() < 0.1:
            limited = limited + self.rng.choice(self.loops)
        return self.rng.choice([LT, LT, EQ])(limited, IntImm(self.rng.randint(0, 3)))

    def flat(self):
        """The number of the thread in its block, the axes in some order."""
        threads = list(self.kernel.threads)
        self.rng.shuffle(threads)
        number, span = IntImm(0), 1
        for thread in threads:
            number, span = number + thread.var * span, span * thread.extent
        return number, span

    def regions(self, index, size):
        """An index in a region of each loop: in their order or backwards, apart or not."""
        rng = self.rng
        for var in self.loops:
            last, step = self.last[var], rng.choice([size, size, size, size + 1, size // 2, 1])
            ways = [var, var, var, IntImm(last) - var, var // 2, var % 2]
            if rng.random() < 0.6:
                index, size = index + rng.choice(ways) * step, size + step * last
        for var, (low, high) in self.lets.items():
            step = rng.choice([1, 4, size])
            if rng.random() < 0.3:
                index, size = index + (var - low) * step, size + step * (high - low)
        return index, size

    def producer(self):
        """A store of each thread to elements of its own, perhaps with a read of another buffer."""
        rng, kernel = self.rng, self.kernel
        thread, span = self.flat()
        width = rng.choice([1, 1, 2, 4])
        index, size = self.regions(thread * width, span * width)
        buffer = shared()
        slot = self.slot()
        if slot is not None:
            index = index + (slot.var + slot.offset) % slot.count * size
        value = self.value() if self.buffers and rng.random() < 0.4 else ONE
        place = kernel.index(index, slot, buffer)
        self.buffers.append((buffer, size, thread * width, index, slot))
        if width > 1 and rng.random() < 0.5:
            place = Ramp(place, 1, width)
        elif width > 1 and rng.random() < 0.5:
            inner = lambda var: kernel.write(buffer, index + var, value, slot)
            return kernel.loop(width, inner)
        return Store(buffer, (place,), value)

    def slot(self):
        """A slot of a ring over a loop that is open, or None."""
        if not self.loops or self.rng.random() < 0.6:
            return None
        count = self.rng.choice([2, 3, 4, 5])
        return Slot(self.rng.choice(self.loops), self.rng.randrange(count), count)

    def consumer(self):
        """A read of something written."""
        return Store(register(), (IntImm(0),), self.value())

    def value(self):
        """A load: of the own element, a shifted one, one of a loop, or in another slot."""
        rng, kernel = self.rng, self.kernel
        buffer, size, own, index, slot = rng.choice(self.buffers)
        known = _names_of(index, kernel) <= {*self.loops, *self.lets}
        stride = rng.choice([1, 2]) if rng.random() < 0.15 else 0
        if slot is not None and slot.var in self.loops:
            if not known or stride or rng.random() < 0.7:
                slot = Slot(slot.var, rng.randrange(slot.count), slot.count)
                base, _ = self.regions(rng.choice([own, own + rng.randint(0, 4), IntImm(0)]), 4)
                base = base % max(size - stride, 1) if size > stride else IntImm(0)
                base = base + (slot.var + slot.offset) % slot.count * size
            else:
                base = index
        elif known and rng.random() < 0.6:
            base = index + rng.choice([0, 0, 1, 2, 3, 4, 6, 8, 12, 16, -1, -4, -8, size])
        else:
            first = rng.choice([own, own + rng.randint(0, 4), kernel.vars[0], IntImm(0)])
            base, _ = self.regions(first, rng.choice([2, 4, 8, size]))
        if slot is not None and slot.var not in self.loops:
            slot = None
        if stride and size > stride:
            return Load(buffer, (Ramp(kernel.index(base, slot, buffer), stride, 2),))
        return kernel.value(buffer, base, slot)


def _names_of(expr, kernel):
    """The variables in an index that are not those of threads."""
    if isinstance(expr, Var):
        return set() if expr in kernel.vars else {expr}
    if isinstance(expr, IntImm):
        return set()
    return _names_of(expr.a, kernel) | _names_of(expr.b, kernel)
