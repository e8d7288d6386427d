package req

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func mustNew(t *testing.T, key string, op Operator, values ...string) Requirement {
	t.Helper()
	r, err := New(key, op, values...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestP29_OperatorsAdmit(t *testing.T) {
	cases := []struct {
		op     Operator
		values []string
		yes    []string
		no     []string
		absent bool
	}{
		{In, []string{"a", "b"}, []string{"a", "b"}, []string{"c", ""}, false},
		{NotIn, []string{"a"}, []string{"b", ""}, []string{"a"}, true},
		{Exists, nil, []string{"a", ""}, nil, false},
		{DoesNotExist, nil, nil, []string{"a", ""}, true},
		{Gt, []string{"3"}, []string{"4", "100"}, []string{"3", "x", ""}, false},
		{Lt, []string{"3"}, []string{"2", "-1"}, []string{"3", "x"}, false},
		{Gte, []string{"3"}, []string{"3", "4"}, []string{"2"}, false},
		{Lte, []string{"3"}, []string{"3", "2"}, []string{"4"}, false},
		{Gt, []string{strconv.FormatInt(math.MaxInt64, 10)}, nil, []string{"5"}, false},
		{Lt, []string{strconv.FormatInt(math.MinInt64, 10)}, nil, []string{"5"}, false},
	}
	for _, c := range cases {
		r := mustNew(t, "k", c.op, c.values...)
		for _, v := range c.yes {
			if !r.Admits(v, true) {
				t.Errorf("%s refuses %q", r, v)
			}
		}
		for _, v := range c.no {
			if r.Admits(v, true) {
				t.Errorf("%s admits %q", r, v)
			}
		}
		if got := r.Admits("", false); got != c.absent {
			t.Errorf("%s on a node without the label: %t, want %t", r, got, c.absent)
		}
	}
}

func TestP29_NewRefusesWhatCannotBeRead(t *testing.T) {
	cases := []struct {
		key    string
		op     Operator
		values []string
		want   string
	}{
		{"", In, []string{"a"}, "no key"},
		{"k", In, nil, "no values"},
		{"k", Exists, []string{"a"}, "takes no values"},
		{"k", Gt, nil, "exactly one value"},
		{"k", Gt, []string{"x"}, "needs an integer"},
		{"k", "Near", nil, "unknown operator"},
	}
	for _, c := range cases {
		if _, err := New(c.key, c.op, c.values...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%q, %s, %v) = %v, want %q", c.key, c.op, c.values, err, c.want)
		}
	}
}

func TestP30_Meet(t *testing.T) {
	cases := []struct{ a, b, want string }{
		{"In a,b", "In b,c", "k In [b]"},
		{"In a", "In b", "k (nothing)"},
		{"In a,b", "NotIn a", "k In [b]"},
		{"NotIn a", "NotIn b", "k NotIn [a b]"},
		{"Exists", "NotIn a", "k NotIn [a]"},
		{"DoesNotExist", "NotIn a", "k DoesNotExist"},
		{"DoesNotExist", "In a", "k (nothing)"},
		{"Exists", "DoesNotExist", "k (nothing)"},
		{"Gt 3", "Lt 9", "k Gte 4 Lte 8"},
		{"Gt 9", "Lt 3", "k (nothing)"},
		{"Gt 3", "In 2,5,x", "k In [5]"},
		{"Gte 3", "NotIn 5", "k Gte 3 NotIn [5]"},
	}
	for _, c := range cases {
		a, b := parsed(t, c.a), parsed(t, c.b)
		if got := a.Meet(b).String(); got != c.want {
			t.Errorf("%s meets %s: %s, want %s", c.a, c.b, got, c.want)
		}
		if got := b.Meet(a).String(); got != c.want {
			t.Errorf("%s meets %s: %s, want %s", c.b, c.a, got, c.want)
		}
	}
}

func parsed(t *testing.T, text string) Requirement {
	f := strings.Fields(text)
	var values []string
	if len(f) > 1 {
		values = strings.Split(f[1], ",")
	}
	return mustNew(t, "k", Operator(f[0]), values...)
}

func TestP30_ExistsIsNotLost(t *testing.T) {
	r := parsed(t, "Exists").Meet(parsed(t, "NotIn a"))
	if r.AdmitsAbsent() {
		t.Error("a node without the label passes Exists and NotIn together")
	}
}

// TestP31_CompatibilityMatrix checks every pair of operators against what a node could look like.
func TestP31_CompatibilityMatrix(t *testing.T) {
	forms := []string{"In a,5", "In b", "NotIn a", "NotIn 5", "Exists", "DoesNotExist", "Gt 3", "Lt 3", "Gte 5", "Lte 5"}
	worlds := []struct {
		value   string
		present bool
	}{{"a", true}, {"b", true}, {"2", true}, {"4", true}, {"5", true}, {"6", true}, {"zz", true}, {"", false}}
	for _, x := range forms {
		for _, y := range forms {
			a, b := parsed(t, x), parsed(t, y)
			both := false
			for _, w := range worlds {
				both = both || (a.Admits(w.value, w.present) && b.Admits(w.value, w.present))
			}
			if got := a.Overlaps(b); got != both {
				t.Errorf("%s and %s overlap: %t, want %t", x, y, got, both)
			}
			if got := NewSet(a).Compatible(NewSet(b), nil) == nil; got != both {
				t.Errorf("%s is compatible with %s: %t, want %t", x, y, got, both)
			}
		}
	}
}

func TestP31_UndefinedKeys(t *testing.T) {
	none := NewSet()
	for form, want := range map[string]bool{"In a": false, "Exists": false, "Gt 1": false, "NotIn a": true, "DoesNotExist": true} {
		if got := none.Compatible(NewSet(parsed(t, form)), nil) == nil; got != want {
			t.Errorf("%s on an undefined key: %t, want %t", form, got, want)
		}
		if none.Compatible(NewSet(parsed(t, form)), func(string) bool { return true }) != nil {
			t.Errorf("%s on an open key is refused", form)
		}
	}
	c := none.Compatible(NewSet(parsed(t, "In a")), nil)
	if got, want := c.String(), "requires k In [a], which is not defined"; got != want {
		t.Errorf("conflict %q, want %q", got, want)
	}
}

func TestP32_Entries(t *testing.T) {
	r := parsed(t, "Gt 3").Meet(parsed(t, "Lt 9")).Meet(parsed(t, "NotIn 5"))
	r.MinValues = 2
	want := []Entry{{"k", Gte, []string{"4"}, 2}, {"k", Lte, []string{"8"}, 0}, {"k", NotIn, []string{"5"}, 0}}
	if diff := cmp.Diff(want, NewSet(r).Entries()); diff != "" {
		t.Error(diff)
	}
}

func TestA33_MinValuesMeetAtTheLarger(t *testing.T) {
	a, b := parsed(t, "Exists"), parsed(t, "Exists")
	a.MinValues, b.MinValues = 2, 5
	if got := a.Meet(b).MinValues; got != 5 {
		t.Errorf("minValues %d, want 5", got)
	}
}

func genRequirement(t *rapid.T) Requirement {
	ops := []Operator{In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte}
	op := ops[rapid.IntRange(0, len(ops)-1).Draw(t, "op")]
	pool := []string{"a", "b", "1", "2", "3", "-7"}
	var values []string
	switch op {
	case In, NotIn:
		for range rapid.IntRange(1, 3).Draw(t, "n") {
			values = append(values, pool[rapid.IntRange(0, len(pool)-1).Draw(t, "value")])
		}
	case Gt, Lt, Gte, Lte:
		values = []string{strconv.Itoa(rapid.IntRange(-8, 4).Draw(t, "bound"))}
	case Exists, DoesNotExist:
	}
	r, err := New("k", op, values...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPropertyMeetIsConjunction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genRequirement(t), genRequirement(t)
		m := a.Meet(b)
		for _, v := range []string{"a", "b", "c", "1", "2", "3", "4", "-7", "-8", ""} {
			if m.Admits(v, true) != (a.Admits(v, true) && b.Admits(v, true)) {
				t.Fatalf("%s meets %s is %s, wrong at %q", a, b, m, v)
			}
		}
		if m.AdmitsAbsent() != (a.AdmitsAbsent() && b.AdmitsAbsent()) {
			t.Fatalf("%s meets %s is %s, wrong without the label", a, b, m)
		}
		if string(m.AppendKey(nil)) != string(b.Meet(a).AppendKey(nil)) {
			t.Fatalf("%s and %s do not meet alike both ways", a, b)
		}
	})
}

// FuzzRequirement reads anything: it must not panic, and what it accepts must survive being written and read again.
func FuzzRequirement(f *testing.F) {
	f.Add("k", "In", "a,b")
	f.Add("k", "Gt", "9223372036854775807")
	f.Add("", "Near", "\x00")
	f.Fuzz(func(t *testing.T, key, op, list string) {
		r, err := New(key, Operator(op), strings.Split(list, ",")...)
		if err != nil {
			return
		}
		_ = r.String()
		again := Set{}
		for _, e := range NewSet(r).Entries() {
			x, err := New(e.Key, e.Operator, e.Values...)
			if err != nil {
				t.Fatalf("%s does not read back: %v", r, err)
			}
			again = again.With(x)
		}
		for _, v := range append(strings.Split(list, ","), "x", "0") {
			if len(again) == 1 && again[0].Admits(v, true) != r.Admits(v, true) {
				t.Fatalf("%s reads back as %s, which differs at %q", r, again, v)
			}
		}
	})
}
