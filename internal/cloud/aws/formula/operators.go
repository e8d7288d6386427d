package formula

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
)

var (
	errOverflow = errors.New("goes beyond 64 bits")
	errZero     = errors.New("divides by zero")
)

// combine makes a node of two values with an operator between them.
func combine(op string, a, b node, at int) (node, error) {
	fits := a.kind == b.kind
	switch op {
	case "||", "&&":
		if fits && a.kind == kindBool {
			return logic(op == "||", a, b), nil
		}
	case "==", "!=", "<", "<=", ">", ">=":
		ordered := op == "==" || op == "!=" || a.kind != kindBool
		if fits && ordered {
			return comparison(op, a, b), nil
		}
	case "%":
		if fits && a.kind == kindInt {
			return arithmetic(op, a, b), nil
		}
	default:
		if fits && a.kind.number() {
			return arithmetic(op, a, b), nil
		}
	}
	hint := ""
	if a.kind.number() && b.kind.number() {
		hint = "; use int() or double() to make both the same"
	}
	return node{}, fmt.Errorf("at character %d: %s cannot be between %s and %s%s", at+1, op, a.kind, b.kind, hint)
}

// logic is a || b, or a && b. As in CEL a side that decides makes up for one that fails.
func logic(or bool, a, b node) node {
	return node{kind: kindBool, eval: func(v *Variables) (value, error) {
		left, failed := a.eval(v)
		if failed == nil && left.b == or {
			return left, nil
		}
		right, err := b.eval(v)
		if err == nil && right.b == or {
			return right, nil
		}
		return right, errors.Join(failed, err)
	}}
}

func comparison(op string, a, b node) node {
	return node{kind: kindBool, eval: func(v *Variables) (value, error) {
		x, y, err := both(v, a, b)
		if err != nil {
			return value{}, err
		}
		order := cmp.Or(cmp.Compare(x.i, y.i), cmp.Compare(x.f, y.f), strings.Compare(x.s, y.s))
		if x.b != y.b {
			order = 1
		}
		return value{b: map[string]bool{"==": order == 0, "!=": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[op]}, nil
	}}
}

func arithmetic(op string, a, b node) node {
	return node{kind: a.kind, eval: func(v *Variables) (value, error) {
		x, y, err := both(v, a, b)
		if err != nil {
			return value{}, err
		}
		if a.kind == kindInt {
			n, err := integer(op, x.i, y.i)
			return value{i: n}, err
		}
		switch op {
		case "+":
			x.f += y.f
		case "-":
			x.f -= y.f
		case "*":
			x.f *= y.f
		case "/":
			x.f /= y.f
		}
		return x, nil
	}}
}

// integer is whole arithmetic that notices when 64 bits are not enough.
func integer(op string, x, y int64) (int64, error) {
	switch op {
	case "+":
		if sum := x + y; (sum > x) == (y > 0) {
			return sum, nil
		}
	case "-":
		if diff := x - y; (diff < x) == (y > 0) {
			return diff, nil
		}
	case "*":
		product := x * y
		if x == 0 || product/x == y && !(x == -1 && y == math.MinInt64) {
			return product, nil
		}
	case "/", "%":
		switch {
		case y == 0:
			return 0, errZero
		case x == math.MinInt64 && y == -1:
		case op == "/":
			return x / y, nil
		default:
			return x % y, nil
		}
	}
	return 0, errOverflow
}

func both(v *Variables, a, b node) (x, y value, err error) {
	if x, err = a.eval(v); err == nil {
		y, err = b.eval(v)
	}
	return x, y, err
}

// negate makes -of or !of.
func negate(op string, of node, at int) (node, error) {
	if op == "!" && of.kind == kindBool {
		return node{kind: kindBool, eval: func(v *Variables) (value, error) {
			x, err := of.eval(v)
			return value{b: !x.b}, err
		}}, nil
	}
	if op == "-" && of.kind.number() {
		zero := constant(of.kind, value{})
		return arithmetic("-", zero, of), nil
	}
	return node{}, fmt.Errorf("at character %d: %s cannot be before %s", at+1, op, of.kind)
}

// call makes a node of min, max, int or double.
func call(name token, args []node) (node, error) {
	numbers := true
	for _, a := range args {
		numbers = numbers && a.kind.number()
	}
	switch name.text {
	case "min", "max":
		if len(args) == 2 && numbers {
			return extreme(name.text == "max", args[0], args[1]), nil
		}
		return node{}, fmt.Errorf("at character %d: %s takes two numbers", name.at+1, name.text)
	case "int", "double":
		if len(args) == 1 && numbers {
			return convert(name.text == "int", args[0]), nil
		}
		return node{}, fmt.Errorf("at character %d: %s takes one number", name.at+1, name.text)
	}
	return node{}, fmt.Errorf("at character %d: there is no function %s; there are min, max, int, double, and for texts startsWith, endsWith, contains and matches", name.at+1, name.text)
}

// extreme is the larger or the smaller of two numbers; a fraction if one of them is.
func extreme(larger bool, a, b node) node {
	k := max(a.kind, b.kind)
	return node{kind: k, eval: func(v *Variables) (value, error) {
		x, y, err := both(v, a, b)
		if err != nil {
			return value{}, err
		}
		if k == kindInt {
			if larger {
				return value{i: max(x.i, y.i)}, nil
			}
			return value{i: min(x.i, y.i)}, nil
		}
		if larger {
			return value{f: max(x.double(a.kind), y.double(b.kind))}, nil
		}
		return value{f: min(x.double(a.kind), y.double(b.kind))}, nil
	}}
}

func convert(toInt bool, of node) node {
	if !toInt {
		return node{kind: kindDouble, eval: func(v *Variables) (value, error) {
			x, err := of.eval(v)
			return value{f: x.double(of.kind)}, err
		}}
	}
	return node{kind: kindInt, eval: func(v *Variables) (value, error) {
		x, err := of.eval(v)
		if err != nil || of.kind == kindInt {
			return x, err
		}
		if !(math.Abs(x.f) < math.MaxInt64) {
			return value{}, errOverflow
		}
		return value{i: int64(x.f)}, nil
	}}
}

// callText makes a node of a function of texts. A pattern must be written out, so that it is checked once and in time.
func callText(name token, of node, args []node) (node, error) {
	if of.kind != kindText || len(args) != 1 || args[0].kind != kindText {
		return node{}, fmt.Errorf("at character %d: %s must stand after a text and take one text", name.at+1, name.text)
	}
	arg := args[0]
	test := map[string]func(s, part string) bool{"startsWith": strings.HasPrefix, "endsWith": strings.HasSuffix, "contains": strings.Contains}[name.text]
	switch {
	case test != nil:
	case name.text == "matches" && arg.given:
		pattern, err := regexp.Compile(arg.literal)
		if err != nil {
			return node{}, fmt.Errorf("at character %d: %w", name.at+1, err)
		}
		test = func(s, _ string) bool { return pattern.MatchString(s) }
	case name.text == "matches":
		return node{}, fmt.Errorf("at character %d: matches takes a pattern in quotes", name.at+1)
	default:
		return node{}, fmt.Errorf("at character %d: texts have no function %s; they have startsWith, endsWith, contains and matches", name.at+1, name.text)
	}
	return node{kind: kindBool, eval: func(v *Variables) (value, error) {
		s, part, err := both(v, of, arg)
		return value{b: err == nil && test(s.s, part.s)}, err
	}}, nil
}
