package pack

import "math/bits"

// bitset is a set of small integers. Sets that are combined have the same length.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

// fullBitset holds 0 to n-1.
func fullBitset(n int) bitset {
	b := newBitset(n)
	for i := range b {
		b[i] = ^uint64(0)
	}
	if n%64 != 0 {
		b[len(b)-1] = 1<<(n%64) - 1
	}
	return b
}

func (b bitset) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }
func (b bitset) add(i int)      { b[i>>6] |= 1 << (i & 63) }
func (b bitset) drop(i int)     { b[i>>6] &^= 1 << (i & 63) }

func (b bitset) clone() bitset { return append(bitset(nil), b...) }

// and intersects b with o in place.
func (b bitset) and(o bitset) bitset {
	for i := range b {
		b[i] &= o[i]
	}
	return b
}

// or unites b with o in place.
func (b bitset) or(o bitset) bitset {
	for i := range b {
		b[i] |= o[i]
	}
	return b
}

func (b bitset) empty() bool {
	for _, w := range b {
		if w != 0 {
			return false
		}
	}
	return true
}

func (b bitset) meets(o bitset) bool {
	for i, w := range b {
		if w&o[i] != 0 {
			return true
		}
	}
	return false
}

func (b bitset) count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// each yields the members in order.
func (b bitset) each(yield func(int) bool) {
	for i, w := range b {
		for w != 0 {
			if !yield(i<<6 + bits.TrailingZeros64(w)) {
				return
			}
			w &= w - 1
		}
	}
}

// appendKey appends bytes that identify the set among sets of its length.
func (b bitset) appendKey(k []byte) []byte {
	for _, w := range b {
		k = append(k, byte(w), byte(w>>8), byte(w>>16), byte(w>>24), byte(w>>32), byte(w>>40), byte(w>>48), byte(w>>56))
	}
	return k
}
