package v1

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Cron is a parsed schedule. All its times are UTC.
// +kubebuilder:object:generate=false
type Cron struct {
	minute, hour, day, month, weekday uint64 // one bit per admitted value
	// anyDay and anyWeekday remember a plain star: if neither is one, a day that matches either of the two is admitted.
	anyDay, anyWeekday bool
}

// cronMacros are the schedules that have a name.
var cronMacros = map[string]string{
	"@annually": "0 0 1 1 *",
	"@yearly":   "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// cronField is one of the five columns of a schedule.
// +kubebuilder:object:generate=false
type cronField struct {
	name     string
	min, max int      // what a star stands for
	limit    int      // the largest number that may be written
	names    []string // for min, min+1, and so on
}

var cronFields = [5]cronField{
	{name: "minute", min: 0, max: 59, limit: 59},
	{name: "hour", min: 0, max: 23, limit: 23},
	{name: "day of month", min: 1, max: 31, limit: 31},
	{name: "month", min: 1, max: 12, limit: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", min: 0, max: 6, limit: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// ParseCron reads five fields (minute, hour, day of month, month, day of week) or one of @hourly, @daily, @midnight,
// @weekly, @monthly, @yearly and @annually. A field is a list of numbers, names, ranges, stars and steps such as
// "0", "mon-fri", "1,15", "*/10" or "8-18/2". Sunday is 0 or 7.
func ParseCron(schedule string) (Cron, error) {
	text := schedule
	if strings.HasPrefix(text, "@") {
		macro, ok := cronMacros[text]
		if !ok {
			return Cron{}, fmt.Errorf("schedule %q: use one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually, or five fields", schedule)
		}
		text = macro
	}
	columns := strings.Fields(text)
	if len(columns) != len(cronFields) {
		return Cron{}, fmt.Errorf("schedule %q has %d fields: it needs five, minute, hour, day of month, month and day of week", schedule, len(columns))
	}
	var sets [5]uint64
	for i, field := range cronFields {
		set, err := field.parse(columns[i])
		if err != nil {
			return Cron{}, fmt.Errorf("schedule %q: %s: %w", schedule, field.name, err)
		}
		sets[i] = set
	}
	const seven = 1 << 7
	if sets[4]&seven != 0 {
		sets[4] = sets[4]&^seven | 1
	}
	return Cron{
		minute: sets[0], hour: sets[1], day: sets[2], month: sets[3], weekday: sets[4],
		anyDay: hasStar(columns[2]), anyWeekday: hasStar(columns[4]),
	}, nil
}

// hasStar reports whether a column admits everything outright. A star with a step does not.
func hasStar(column string) bool {
	for part := range strings.SplitSeq(column, ",") {
		if base, step, stepped := strings.Cut(part, "/"); (base == "*" || base == "?") && (!stepped || step == "1") {
			return true
		}
	}
	return false
}

// parse returns the set of values that a column admits.
func (f cronField) parse(column string) (uint64, error) {
	var set uint64
	for part := range strings.SplitSeq(column, ",") {
		one, err := f.parsePart(part)
		if err != nil {
			return 0, err
		}
		set |= one
	}
	return set, nil
}

// parsePart reads one entry of a list: a value, a range or a star, each with or without a step.
func (f cronField) parsePart(part string) (uint64, error) {
	base, stepText, stepped := strings.Cut(part, "/")
	step := 1
	if stepped {
		n, err := strconv.Atoi(stepText)
		if err != nil || n < 1 {
			return 0, fmt.Errorf("%q: the step after / must be a whole number above 0", part)
		}
		step = n
	}
	low, high, ranged := strings.Cut(base, "-")
	first, last := f.min, f.max
	if base != "*" && base != "?" {
		var err error
		if first, err = f.value(low); err != nil {
			return 0, err
		}
		if ranged {
			if last, err = f.value(high); err != nil {
				return 0, err
			}
		} else if !stepped || first > last { // "5" is one value, "5/15" starts there and goes to the end
			last = first
		}
	}
	if first > last {
		return 0, fmt.Errorf("%q: a range must go upwards; write two ranges with a comma between", part)
	}
	var set uint64
	for v := first; v <= last; v += min(step, f.max+1) {
		set |= 1 << v
	}
	return set, nil
}

// value reads a number or a name.
func (f cronField) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(name, text) {
			return f.min + i, nil
		}
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || int(n) < f.min || int(n) > f.limit {
		if len(f.names) > 0 {
			return 0, fmt.Errorf("%q: use a number from %d to %d or a name such as %s", text, f.min, f.limit, f.names[0])
		}
		return 0, fmt.Errorf("%q: use a number from %d to %d", text, f.min, f.limit)
	}
	return int(n), nil
}

// cronHorizon is how far back Last looks. The rarest day there is, 29 February, comes back within eight years.
const cronHorizon = 8*366 + 1

// Last returns the latest time at or before now that the schedule names; ok is false if there is none, as for 30 February.
func (c Cron) Last(now time.Time) (last time.Time, ok bool) {
	now = now.UTC()
	year, month, day := now.Date()
	latest := now.Hour()*60 + now.Minute()
	for back := range cronHorizon {
		date := time.Date(year, month, day-back, 0, 0, 0, 0, time.UTC)
		if c.matchesDay(date) {
			if minute, ok := c.lastMinute(latest); ok {
				return date.Add(time.Duration(minute) * time.Minute), true
			}
		}
		latest = 24*60 - 1
	}
	return time.Time{}, false
}

// lastMinute returns the latest minute of a day, at or before the given one, that the schedule names.
func (c Cron) lastMinute(latest int) (int, bool) {
	for hour := latest / 60; hour >= 0; hour-- {
		if c.hour&(1<<hour) == 0 {
			continue
		}
		limit := 59
		if hour == latest/60 {
			limit = latest % 60
		}
		if admitted := c.minute & (1<<(limit+1) - 1); admitted != 0 {
			return hour*60 + bits.Len64(admitted) - 1, true
		}
	}
	return 0, false
}

func (c Cron) matchesDay(date time.Time) bool {
	if c.month&(1<<date.Month()) == 0 {
		return false
	}
	day, weekday := c.day&(1<<date.Day()) != 0, c.weekday&(1<<date.Weekday()) != 0
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}
