package formula

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// parser reads an expression from left to right, one token ahead.
type parser struct {
	text  string
	at    int
	token token
	depth int
}

func (p *parser) sign(texts ...string) bool {
	return p.token.kind == tokenSign && slices.Contains(texts, p.token.text)
}

// unexpected says what stands where something else should.
func (p *parser) unexpected(want string) error {
	if p.token.kind == tokenEnd {
		return fmt.Errorf("ends where %s is missing", want)
	}
	return fmt.Errorf("at character %d: %q stands where %s should", p.token.at+1, p.token.text, want)
}

// expect passes over a sign.
func (p *parser) expect(text string) error {
	if !p.sign(text) {
		return p.unexpected(fmt.Sprintf("%q", text))
	}
	return p.next()
}

// ternary reads condition ? this : that, and everything that binds tighter.
func (p *parser) ternary() (node, error) {
	if p.depth++; p.depth > maxDepth {
		return node{}, fmt.Errorf("is nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	condition, err := p.binary(0)
	if err != nil || !p.sign("?") {
		return condition, err
	}
	at := p.token.at
	if err := p.next(); err != nil {
		return node{}, err
	}
	yes, err := p.binary(0)
	if err != nil {
		return node{}, err
	}
	if err := p.expect(":"); err != nil {
		return node{}, err
	}
	no, err := p.ternary()
	if err != nil {
		return node{}, err
	}
	if condition.kind != kindBool || yes.kind != no.kind {
		return node{}, fmt.Errorf("at character %d: ? needs true or false before it and two values of one type after it, not %s, %s and %s", at+1, condition.kind, yes.kind, no.kind)
	}
	return node{kind: yes.kind, eval: func(v *Variables) (value, error) {
		c, err := condition.eval(v)
		switch {
		case err != nil:
			return value{}, err
		case c.b:
			return yes.eval(v)
		}
		return no.eval(v)
	}}, nil
}

// levels are the operators between two values, from the loosest to the tightest.
var levels = [][]string{{"||"}, {"&&"}, {"==", "!=", "<", "<=", ">", ">=", "in"}, {"+", "-"}, {"*", "/", "%"}}

// operator is the one that the parser stands before, if it is of the level.
func (p *parser) operator(level int) (string, bool) {
	t := p.token
	named := t.kind == tokenName && t.text == "in"
	return t.text, (t.kind == tokenSign || named) && slices.Contains(levels[level], t.text)
}

// binary reads values with operators of the level or tighter ones between them; equal ones group from the left.
func (p *parser) binary(level int) (node, error) {
	if level == len(levels) {
		return p.unary()
	}
	left, err := p.binary(level + 1)
	for err == nil {
		op, is := p.operator(level)
		if !is {
			break
		}
		at := p.token.at
		if err = p.next(); err != nil {
			break
		}
		if op == "in" {
			left, err = p.among(left, at)
			continue
		}
		var right node
		if right, err = p.binary(level + 1); err == nil {
			left, err = combine(op, left, right, at)
		}
	}
	return left, err
}

// among reads the list after in.
func (p *parser) among(left node, at int) (node, error) {
	if err := p.expect("["); err != nil {
		return node{}, err
	}
	list, err := p.list("]")
	if err != nil {
		return node{}, err
	}
	hit := constant(kindBool, value{})
	for _, one := range list {
		equal, err := combine("==", left, one, at)
		if err != nil {
			return node{}, err
		}
		if hit, err = combine("||", hit, equal, at); err != nil {
			return node{}, err
		}
	}
	return hit, nil
}

// list reads values with commas between them, up to the sign that ends it.
func (p *parser) list(end string) ([]node, error) {
	var out []node
	for !p.sign(end) {
		if len(out) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		one, err := p.ternary()
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, p.next()
}

func (p *parser) unary() (node, error) {
	if !p.sign("-", "!") {
		return p.postfix()
	}
	if p.depth++; p.depth > maxDepth {
		return node{}, fmt.Errorf("is nested more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	op, at := p.token.text, p.token.at
	if err := p.next(); err != nil {
		return node{}, err
	}
	of, err := p.unary()
	if err != nil {
		return node{}, err
	}
	return negate(op, of, at)
}

// postfix reads a value and the calls that follow it with a dot.
func (p *parser) postfix() (node, error) {
	of, err := p.primary()
	for err == nil && p.sign(".") {
		if err = p.next(); err != nil {
			break
		}
		name := p.token
		if name.kind != tokenName {
			return node{}, p.unexpected("the name of a function")
		}
		if err = p.next(); err != nil {
			break
		}
		if err = p.expect("("); err != nil {
			break
		}
		var args []node
		if args, err = p.list(")"); err == nil {
			of, err = callText(name, of, args)
		}
	}
	return of, err
}

func (p *parser) primary() (node, error) {
	t := p.token
	if err := p.next(); err != nil {
		return node{}, err
	}
	switch {
	case t.kind == tokenInt:
		return constant(kindInt, value{i: t.i}), nil
	case t.kind == tokenDouble:
		return constant(kindDouble, value{f: t.f}), nil
	case t.kind == tokenText:
		return constant(kindText, value{s: t.text}), nil
	case t.kind == tokenName && (t.text == "true" || t.text == "false"):
		return constant(kindBool, value{b: t.text == "true"}), nil
	case t.kind == tokenName && p.sign("("):
		if err := p.next(); err != nil {
			return node{}, err
		}
		args, err := p.list(")")
		if err != nil {
			return node{}, err
		}
		return call(t, args)
	case t.kind == tokenName:
		if n, known := names[t.text]; known {
			return n, nil
		}
		return node{}, fmt.Errorf("at character %d: there is no variable %s; there are %s", t.at+1, t.text, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	case t.kind == tokenSign && t.text == "(":
		inner, err := p.ternary()
		if err != nil {
			return node{}, err
		}
		return inner, p.expect(")")
	}
	p.token = t
	return node{}, p.unexpected("a value")
}
