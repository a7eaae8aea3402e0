// Division of n < 2^31 by what the host knows: q = (n + high word of n * magic) >> shift (Granlund and Montgomery, "Division
// by Invariant Integers using Multiplication", 1994). Shifts are packed, five bits each.
uint divide(uint n, uint magic, uint shifts, uint place) {
  uint high, low;
  umulExtended(n, magic, high, low);
  return (n + high) >> bitfieldExtract(shifts, int(place * 5), 5);
}
