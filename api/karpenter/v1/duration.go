package v1

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// Never is the text that turns a NillableDuration off.
const Never = "Never"

// Duration is a length of time written like "30s", "15m" or "1h30m". It remembers the text it was read
// from, because tools that compare manifests must not see "720h" come back as "720h0m0s" (A80).
// The drift hash sees the length only: 60m and 1h are the same duration.
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=64
type Duration struct {
	// Duration is the length.
	Duration time.Duration `json:"-"`
	// Text is how the user wrote it; it is used for output as long as it still means Duration.
	Text string `json:"-" hash:"ignore"`
}

// tooLong matches what is certainly written as a duration, for when the number does not fit.
var tooLong = regexp.MustCompile(`^[-+]?([0-9]+([.][0-9]*)?(ns|us|µs|μs|ms|s|m|h))+$`)

// parse is time.ParseDuration, except that what is longer than 292 years counts as 292 years. The API server accepts any
// number of digits, and one object that cannot be decoded would hide all the others from a watch.
func parse(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	switch {
	case !tooLong.MatchString(text):
		return 0, err
	case strings.HasPrefix(text, "-"):
		return math.MinInt64, nil
	}
	return math.MaxInt64, nil
}

// NewDuration returns d in Go's own notation.
func NewDuration(d time.Duration) Duration { return Duration{Duration: d, Text: d.String()} }

// ParseDuration reads the notation of Go durations and keeps the text.
func ParseDuration(text string) (Duration, error) {
	d, err := parse(text)
	if err != nil {
		return Duration{}, fmt.Errorf("%q is not a duration: write a number with a unit, for example 30s, 15m or 1h30m", text)
	}
	return Duration{Duration: d, Text: text}, nil
}

// String returns the user's text if it still says what Duration holds, else Go's notation.
func (d Duration) String() string {
	if parsed, err := parse(d.Text); err == nil && parsed == d.Duration {
		return d.Text
	}
	return d.Duration.String()
}

// MarshalJSON writes the user's own text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads a JSON string in the notation of Go durations. JSON null changes nothing.
func (d *Duration) UnmarshalJSON(data []byte) error {
	text, ok, err := durationText(data)
	if err != nil || !ok {
		return err
	}
	parsed, err := ParseDuration(text)
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// NillableDuration is a Duration or the word Never. The zero value means Never, is written so, and is the only
// form of Never, so that the drift hash knows one.
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=64
type NillableDuration struct {
	// Duration is the length, or nil for Never.
	Duration *time.Duration `json:"-"`
	// Text is how the user wrote it, empty for Never; it is used for output as long as it still means Duration.
	Text string `json:"-" hash:"ignore"`
}

// NewNillableDuration returns d in Go's own notation.
func NewNillableDuration(d time.Duration) NillableDuration {
	return NillableDuration{Duration: &d, Text: d.String()}
}

// NeverDuration returns the duration that never passes.
func NeverDuration() NillableDuration { return NillableDuration{} }

// ParseNillableDuration reads a Go duration or the word Never, and keeps the text.
func ParseNillableDuration(text string) (NillableDuration, error) {
	if text == Never {
		return NeverDuration(), nil
	}
	d, err := parse(text)
	if err != nil {
		return NillableDuration{}, fmt.Errorf("%q is not a duration: write a number with a unit, for example 30s, 15m or 720h, or %s", text, Never)
	}
	return NillableDuration{Duration: &d, Text: text}, nil
}

// IsNever reports whether the duration never passes.
func (d NillableDuration) IsNever() bool { return d.Duration == nil }

// String returns the user's text if it still says what Duration holds.
func (d NillableDuration) String() string {
	if d.Duration == nil {
		return Never
	}
	return Duration{Duration: *d.Duration, Text: d.Text}.String()
}

// MarshalJSON writes the user's own text.
func (d NillableDuration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads a JSON string: a Go duration or Never. JSON null changes nothing.
func (d *NillableDuration) UnmarshalJSON(data []byte) error {
	text, ok, err := durationText(data)
	if err != nil || !ok {
		return err
	}
	parsed, err := ParseNillableDuration(text)
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// durationText takes the string out of a JSON value; ok is false for null.
func durationText(data []byte) (text string, ok bool, err error) {
	var value *string
	if err := json.Unmarshal(data, &value); err != nil {
		return "", false, fmt.Errorf("%s is not a duration: write a string such as \"30s\" or \"1h30m\"", data)
	}
	if value == nil {
		return "", false, nil
	}
	return *value, true, nil
}
