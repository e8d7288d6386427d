package cli

import (
	"slices"
	"unicode/utf8"

	"karpenter/internal/model"
)

// Keys that send more than one character.
var topMoves = map[string]int{
	"\x1b[A": -1, "\x1bOA": -1, "k": -1,
	"\x1b[B": 1, "\x1bOB": 1, "j": 1,
	"\x1b[5~": -topPage, "\x1b[6~": topPage, " ": topPage,
	"\x1b[H": -topEnd, "\x1bOH": -topEnd, "\x1b[1~": -topEnd, "g": -topEnd,
	"\x1b[F": topEnd, "\x1bOF": topEnd, "\x1b[4~": topEnd, "G": topEnd,
}

const (
	topPage = 20
	topEnd  = 1 << 30
)

// key does what a key asks for, and says whether that is to end.
func (s *topScreen) key(typed []byte) (end bool) {
	if by, ok := topMoves[string(typed)]; ok && !s.view.typing {
		s.view.cursor = max(0, min(s.view.cursor+by, topEnd))
		return false
	}
	if len(typed) > 1 && typed[0] == 0x1b {
		return false // a key that means nothing here
	}
	for len(typed) > 0 {
		r, size := utf8.DecodeRune(typed)
		typed = typed[size:]
		if s.view.press(r, s.model) {
			return true
		}
	}
	return false
}

// press does what one character asks for, and says whether that is to end.
func (v *topView) press(r rune, m *model.Fleet) (end bool) {
	if r == 3 { // Ctrl-C
		return true
	}
	if v.typing {
		v.write(r)
		return false
	}
	switch r {
	case 'q', 4:
		return true
	case 'c', 'u', 'm', 'a', 'n':
		v.reverse = byte(r) == v.sort && !v.reverse
		v.sort, v.cursor = byte(r), 0
	case '/':
		v.typing, v.filter = true, ""
	case 'p':
		v.nextPool(m)
	case 0x1b:
		v.filter, v.pool = "", ""
	}
	return false
}

// write edits the filter.
func (v *topView) write(r rune) {
	switch {
	case r == '\r' || r == '\n':
		v.typing = false
	case r == 0x1b:
		v.typing, v.filter = false, ""
	case r == 0x7f || r == 8:
		if runes := []rune(v.filter); len(runes) > 0 {
			v.filter = string(runes[:len(runes)-1])
		}
	case r >= ' ' && len(v.filter) < 100:
		v.filter += string(r)
	}
	v.cursor = 0
}

// nextPool goes through the pools, and after the last shows all of them.
func (v *topView) nextPool(m *model.Fleet) {
	v.cursor = 0
	if m == nil {
		return
	}
	pools := topPools(m)
	at := slices.Index(pools, v.pool)
	if v.pool == "" {
		at = -1
	} else if at < 0 {
		v.pool = ""
		return
	}
	v.pool = ""
	if at+1 < len(pools) {
		v.pool = pools[at+1]
	}
}
