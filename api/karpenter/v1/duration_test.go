package v1

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestA80_DurationsKeepTheirText(t *testing.T) {
	tests := []struct {
		text string
		want time.Duration
	}{
		{"720h", 720 * time.Hour},
		{"0s", 0},
		{"90m", 90 * time.Minute},
		{"1h30m", 90 * time.Minute},
		{"1h30m0s", 90 * time.Minute},
		{"00030s", 30 * time.Second},
		{"9999999h", math.MaxInt64},
		{"99999999999999999999999999s", math.MaxInt64},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			var plain Duration
			var nillable NillableDuration
			data, _ := json.Marshal(test.text)
			if err := json.Unmarshal(data, &plain); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data, &nillable); err != nil {
				t.Fatal(err)
			}
			if plain.Duration != test.want || nillable.IsNever() || *nillable.Duration != test.want {
				t.Errorf("lengths %v and %v, want %v", plain.Duration, nillable.Duration, test.want)
			}
			for _, value := range []any{plain, nillable} {
				if got, err := json.Marshal(value); err != nil || string(got) != string(data) {
					t.Errorf("written as %s (%v), want %s", got, err, data)
				}
			}
		})
	}
}

func TestA80_ChangingTheLengthDropsTheText(t *testing.T) {
	d, err := ParseNillableDuration("720h")
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * time.Hour
	d.Duration = &day
	if got := d.String(); got != "24h0m0s" {
		t.Errorf("String() = %s", got)
	}
}

func TestA16_Never(t *testing.T) {
	var d NillableDuration
	if err := json.Unmarshal([]byte(`"Never"`), &d); err != nil || !d.IsNever() {
		t.Fatalf("%v, %v", d, err)
	}
	if d != (NillableDuration{}) {
		t.Errorf("Never is %+v: the hash knows only the zero value", d)
	}
	if data, _ := json.Marshal(d); string(data) != `"Never"` {
		t.Errorf("written as %s", data)
	}
}

func TestDuration_Refuses(t *testing.T) {
	for _, text := range []string{`"30d"`, `""`, `"never"`, `5`, `{}`, `true`, `"5"`, `"h"`, `"Never "`} {
		var nillable NillableDuration
		if err := json.Unmarshal([]byte(text), &nillable); err == nil {
			t.Errorf("%s is read as %v", text, nillable)
		}
	}
	var plain Duration
	if err := json.Unmarshal([]byte(`"Never"`), &plain); err == nil {
		t.Error("Never is read as a Duration")
	}
}

func TestDuration_NullChangesNothing(t *testing.T) {
	d, n := NewDuration(time.Hour), NewNillableDuration(time.Hour)
	if json.Unmarshal([]byte("null"), &d) != nil || json.Unmarshal([]byte("null"), &n) != nil || d.Duration != time.Hour || n.IsNever() {
		t.Errorf("%v, %v", d, n)
	}
}

func TestDuration_AnyLengthComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64().Draw(t, "length"))
		data, err := json.Marshal(NewNillableDuration(want))
		if err != nil {
			t.Fatal(err)
		}
		var got NillableDuration
		if err := json.Unmarshal(data, &got); err != nil || *got.Duration != want {
			t.Fatalf("%s came back as %v, %v", data, got, err)
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, text := range []string{`"720h"`, `"Never"`, `"1h30m"`, `null`, `""`, `"99999999999h"`, `-5`, `"-1.5µs"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var d NillableDuration
		if json.Unmarshal([]byte(text), &d) != nil {
			return
		}
		data, err := json.Marshal(d)
		if err != nil {
			t.Fatalf("%q is read and cannot be written: %v", text, err)
		}
		var again NillableDuration
		if err := json.Unmarshal(data, &again); err != nil || again.String() != d.String() {
			t.Fatalf("%q becomes %s and then %v (%v)", text, data, again, err)
		}
	})
}
