"""The texts of Poisson's sampler and of draws by weight."""

from __future__ import annotations

import struct


def _uniform(name: str, place: str) -> str:
    """Return the statements of ``%name``, the number from [0, 1) of the word at a place."""
    return f"""
  %{name}.at = getelementptr i64, ptr %words, i64 {place}
  %{name}.word = load i64, ptr %{name}.at
  %{name}.low = and i64 %{name}.word, {(1 << 53) - 1}
  %{name}.wide = sitofp i64 %{name}.low to double
  %{name} = fmul double %{name}.wide, 0x3CA0000000000000"""


def double(value: float) -> str:
    """Return a double as LLVM writes it, bit for bit; of float32 numbers, too."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


#: :func:`webgpu_torch_core.random_streams.counts.fill_poisson` of rates that are not negative, from words of 64 bits. ``arrays`` are words,
#: rates, results, and two places for how many words were used and how many numbers are done; ``numbers`` says how many words there
#: are. A number for which they do not suffice is left to the next call.
POISSON = f"""
define void @kernel(i64 %begin, i64 %end, ptr %arrays, ptr %numbers, ptr %parameters) {{
entry:
  %words = load ptr, ptr %arrays
  %arrays.1 = getelementptr ptr, ptr %arrays, i64 1
  %rates = load ptr, ptr %arrays.1
  %arrays.2 = getelementptr ptr, ptr %arrays, i64 2
  %results = load ptr, ptr %arrays.2
  %arrays.3 = getelementptr ptr, ptr %arrays, i64 3
  %state = load ptr, ptr %arrays.3
  %available = load i64, ptr %numbers
  br label %element
element:
  %i = phi i64 [%begin, %entry], [%next, %stored]
  %used = phi i64 [0, %entry], [%after, %stored]
  %some = icmp slt i64 %i, %end
  br i1 %some, label %start, label %finish
start:
  %rate.at = getelementptr double, ptr %rates, i64 %i
  %rate = load double, ptr %rate.at
  %positive = fcmp ogt double %rate, 0.0
  br i1 %positive, label %chosen, label %stored
chosen:
  %few = fcmp olt double %rate, 10.0
  %least = fneg double %rate
  br i1 %few, label %products, label %rejection
products:
  %limit = call double @exp(double %least)
  br label %factor
factor:
  %place = phi i64 [%used, %products], [%following, %counted]
  %product = phi double [1.0, %products], [%smaller, %counted]
  %count = phi double [0.0, %products], [%more, %counted]
  %is.left = icmp slt i64 %place, %available
  br i1 %is.left, label %multiplied, label %finish
multiplied:{_uniform("u", "%place")}
  %smaller = fmul double %product, %u
  %following = add i64 %place, 1
  %above = fcmp ogt double %smaller, %limit
  br i1 %above, label %counted, label %stored
counted:
  %more = fadd double %count, 1.0
  br label %factor
rejection:
  %root = call double @llvm.sqrt.f64(double %rate)
  %logarithm = call double @log(double %rate)
  %b.root = fmul double %root, {double(2.53)}
  %b = fadd double %b.root, {double(0.931)}
  %a.b = fmul double %b, {double(0.02483)}
  %a = fadd double %a.b, {double(-0.059)}
  %a.twice = fmul double %a, 2.0
  %b.less = fsub double %b, {double(3.4)}
  %scale.part = fdiv double {double(1.1328)}, %b.less
  %scale = fadd double %scale.part, {double(1.1239)}
  %scale.log = call double @log(double %scale)
  %b.lesser = fsub double %b, 2.0
  %tight.part = fdiv double {double(3.6224)}, %b.lesser
  %tight = fsub double {double(0.9277)}, %tight.part
  br label %trial
trial:
  %first = phi i64 [%used, %rejection], [%third, %again]
  %third = add i64 %first, 2
  %are.left = icmp sle i64 %third, %available
  br i1 %are.left, label %drawn, label %finish
drawn:
  %second = add i64 %first, 1{_uniform("turn", "%first")}{_uniform("v", "%second")}
  %shifted = fsub double %turn, 0.5
  %size = call double @llvm.fabs.f64(double %shifted)
  %margin = fsub double 0.5, %size
  %is.zero = fcmp oeq double %margin, 0.0
  br i1 %is.zero, label %again, label %tried
tried:
  %slope.part = fdiv double %a.twice, %margin
  %slope = fadd double %slope.part, %b
  %k.part = fmul double %slope, %shifted
  %k.rate = fadd double %k.part, %rate
  %k.high = fadd double %k.rate, {double(0.43)}
  %k = call double @llvm.floor.f64(double %k.high)
  %wide = fcmp oge double %margin, {double(0.07)}
  %below = fcmp ole double %v, %tight
  %quick = and i1 %wide, %below
  br i1 %quick, label %stored, label %checked
checked:
  %negative = fcmp olt double %k, 0.0
  %narrow = fcmp olt double %margin, {double(0.013)}
  %outside = fcmp ogt double %v, %margin
  %thin = and i1 %narrow, %outside
  %rejected = or i1 %negative, %thin
  br i1 %rejected, label %again, label %compared
compared:
  %v.log = call double @log(double %v)
  %square = fmul double %margin, %margin
  %ratio = fdiv double %a, %square
  %ratio.b = fadd double %ratio, %b
  %ratio.log = call double @log(double %ratio.b)
  %accepted.part = fadd double %v.log, %scale.log
  %accepted = fsub double %accepted.part, %ratio.log
  %k.log = fmul double %k, %logarithm
  %bound.part = fadd double %least, %k.log
  %k.next = fadd double %k, 1.0
  %gamma = call double @lgamma(double %k.next)
  %bound = fsub double %bound.part, %gamma
  %accepts = fcmp ole double %accepted, %bound
  br i1 %accepts, label %stored, label %again
again:
  br label %trial
stored:
  %value = phi double [0.0, %start], [%count, %multiplied], [%k, %tried], [%k, %compared]
  %after = phi i64 [%used, %start], [%following, %multiplied], [%third, %tried], [%third, %compared]
  %result.at = getelementptr double, ptr %results, i64 %i
  store double %value, ptr %result.at
  %next = add i64 %i, 1
  br label %element
finish:
  store i64 %used, ptr %state
  %state.1 = getelementptr i64, ptr %state, i64 1
  store i64 %i, ptr %state.1
  ret void
}}
declare double @exp(double)
declare double @log(double)
declare double @lgamma(double)
declare double @llvm.sqrt.f64(double)
declare double @llvm.fabs.f64(double)
declare double @llvm.floor.f64(double)
"""


#: Finds in which share of its row's weights each number lies; KIND stands for the type of both. ``arrays`` are weights, numbers from [0, 1),
#: results of 64 bits, and memory for a row's sums; ``numbers`` are a row's weights and draws. Weights are added one after the other, as
#: PyTorch adds; the loop goes over rows.
SHARES = """
define void @kernel(i64 %begin, i64 %end, ptr %arrays, ptr %numbers, ptr %parameters) {
entry:
  %weights = load ptr, ptr %arrays
  %arrays.1 = getelementptr ptr, ptr %arrays, i64 1
  %draws = load ptr, ptr %arrays.1
  %arrays.2 = getelementptr ptr, ptr %arrays, i64 2
  %results = load ptr, ptr %arrays.2
  %arrays.3 = getelementptr ptr, ptr %arrays, i64 3
  %sums = load ptr, ptr %arrays.3
  %count = load i64, ptr %numbers
  %numbers.1 = getelementptr i64, ptr %numbers, i64 1
  %samples = load i64, ptr %numbers.1
  %last = sub i64 %count, 1
  %last.at = getelementptr KIND, ptr %sums, i64 %last
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %row, label %done
row:
  %i = phi i64 [%begin, %entry], [%next, %rows]
  %first = mul i64 %i, %count
  %of.row = getelementptr KIND, ptr %weights, i64 %first
  %drawn.first = mul i64 %i, %samples
  br label %add
add:
  %j = phi i64 [0, %row], [%j.next, %add]
  %before = phi KIND [0.0, %row], [%sum, %add]
  %weight.at = getelementptr KIND, ptr %of.row, i64 %j
  %weight = load KIND, ptr %weight.at
  %sum = fadd KIND %before, %weight
  %sum.at = getelementptr KIND, ptr %sums, i64 %j
  store KIND %sum, ptr %sum.at
  %j.next = add i64 %j, 1
  %adds = icmp slt i64 %j.next, %count
  br i1 %adds, label %add, label %divide
divide:
  %k = phi i64 [0, %add], [%k.next, %divide]
  %part.at = getelementptr KIND, ptr %sums, i64 %k
  %part = load KIND, ptr %part.at
  %share = fdiv KIND %part, %sum
  store KIND %share, ptr %part.at
  %k.next = add i64 %k, 1
  %divides = icmp slt i64 %k.next, %count
  br i1 %divides, label %divide, label %shared
shared:
  store KIND 1.0, ptr %last.at
  br label %draw
draw:
  %m = phi i64 [0, %shared], [%m.next, %found]
  %at = add i64 %drawn.first, %m
  %draw.at = getelementptr KIND, ptr %draws, i64 %at
  %drawn = load KIND, ptr %draw.at
  br label %halve
halve:
  %low = phi i64 [0, %draw], [%low.next, %halve]
  %size = phi i64 [%count, %draw], [%size.next, %halve]
  %half = lshr i64 %size, 1
  %middle = add i64 %low, %half
  %middle.at = getelementptr KIND, ptr %sums, i64 %middle
  %value = load KIND, ptr %middle.at
  %below = fcmp olt KIND %value, %drawn
  %beyond = add i64 %middle, 1
  %low.next = select i1 %below, i64 %beyond, i64 %low
  %rest = sub i64 %size, %half
  %rest.beyond = sub i64 %rest, 1
  %size.next = select i1 %below, i64 %rest.beyond, i64 %half
  %searches = icmp sgt i64 %size.next, 0
  br i1 %searches, label %halve, label %found
found:
  %result.at = getelementptr i64, ptr %results, i64 %at
  store i64 %low.next, ptr %result.at
  %m.next = add i64 %m, 1
  %draws.more = icmp slt i64 %m.next, %samples
  br i1 %draws.more, label %draw, label %rows
rows:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %row, label %done
done:
  ret void
}
"""
