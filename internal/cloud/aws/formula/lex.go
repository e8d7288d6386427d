package formula

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenInt
	tokenDouble
	tokenText
	tokenSign
)

// token is one word of an expression. at is its place in the text, from 0.
type token struct {
	kind tokenKind
	text string
	at   int
	i    int64
	f    float64
}

// signs are the marks of the language, longer ones first.
var signs = []string{"&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", "(", ")", "[", "]", ",", "."}

// next reads the following token.
func (p *parser) next() error {
	p.skip()
	rest := p.text[p.at:]
	p.token = token{at: p.at}
	if rest == "" {
		return nil
	}
	switch c := rest[0]; {
	case letter(c):
		n := 1
		for n < len(rest) && (letter(rest[n]) || digit(rest[n])) {
			n++
		}
		p.take(tokenName, n)
		return nil
	case digit(c), c == '.' && len(rest) > 1 && digit(rest[1]):
		return p.number(rest)
	case c == '"' || c == '\'':
		end := strings.IndexByte(rest[1:], c)
		if end < 0 || strings.ContainsAny(rest[1:1+end], "\\\n") {
			return fmt.Errorf("at character %d: a text must end with %c on the same line and have no backslash", p.at+1, c)
		}
		p.take(tokenText, end+2)
		p.token.text = p.token.text[1 : end+1]
		return nil
	}
	for _, s := range signs {
		if strings.HasPrefix(rest, s) {
			p.take(tokenSign, len(s))
			return nil
		}
	}
	return fmt.Errorf("at character %d: %q has no meaning here", p.at+1, []rune(rest)[0])
}

// take makes the next n bytes the token.
func (p *parser) take(kind tokenKind, n int) {
	p.token.kind, p.token.text = kind, p.text[p.at:p.at+n]
	p.at += n
}

// skip passes over blanks and comments.
func (p *parser) skip() {
	for p.at < len(p.text) {
		switch rest := p.text[p.at:]; {
		case strings.ContainsRune(" \t\r\n", rune(rest[0])):
			p.at++
		case strings.HasPrefix(rest, "//"):
			if i := strings.IndexByte(rest, '\n'); i >= 0 {
				p.at += i
			} else {
				p.at = len(p.text)
			}
		default:
			return
		}
	}
}

// number reads 12, 0x1F, 1.5, .5 or 1e3.
func (p *parser) number(rest string) error {
	n, fraction := 0, false
	hex := strings.HasPrefix(rest, "0x")
	if hex {
		n = 2
	}
scan:
	for ; n < len(rest); n++ {
		switch c := rest[n]; {
		case digit(c) || hex && letter(c):
		case !hex && c == '.':
			fraction = true
		case !hex && (c == 'e' || c == 'E'):
			fraction = true
			if n+1 < len(rest) && (rest[n+1] == '+' || rest[n+1] == '-') {
				n++
			}
		case letter(c):
			return fmt.Errorf("at character %d: a number cannot go on with %q", p.at+n+1, c)
		default:
			break scan
		}
	}
	at, err := p.at, error(nil)
	if fraction {
		p.take(tokenDouble, n)
		p.token.f, err = strconv.ParseFloat(p.token.text, 64)
	} else {
		p.take(tokenInt, n)
		digits, base := strings.TrimPrefix(p.token.text, "0x"), 10
		if hex {
			base = 16
		}
		p.token.i, err = strconv.ParseInt(digits, base, 64)
	}
	if err != nil || math.IsInf(p.token.f, 0) {
		return fmt.Errorf("at character %d: %s is not a number that can be used", at+1, p.token.text)
	}
	return nil
}

func letter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func digit(c byte) bool { return c >= '0' && c <= '9' }
