package why

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// How figures are written, wherever a person reads them. Nothing else in the project formats money, percentages, numbers with
// their nouns or lists that are cut short.

// fine is from how many dollars on an hourly price needs no digits beyond the cent.
const fine = 100

// Price is dollars an hour as a figure alone: two digits beyond the cent where they matter.
func Price(perHour float64) string {
	if math.Abs(perHour) >= fine {
		return strconv.FormatFloat(perHour, 'f', 2, 64)
	}
	return strconv.FormatFloat(perHour, 'f', 4, 64)
}

// Money is dollars an hour: $0.0412/h.
func Money(perHour float64) string { return signed("$"+Price(math.Abs(perHour))+"/h", perHour) }

// Dollars is a sum: $12.34.
func Dollars(sum float64) string {
	return signed("$"+strconv.FormatFloat(math.Abs(sum), 'f', 2, 64), sum)
}

func signed(text string, x float64) string {
	if x < 0 {
		return "-" + text
	}
	return text
}

// Percent is a share in whole per cent, rounded to the nearest.
func Percent(share float64) string {
	return strconv.FormatFloat(math.Round(100*share), 'f', 0, 64) + "%"
}

// Tenths is a share in tenths of a per cent, where whole ones say too little: 3.4%.
func Tenths(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + "%" }

// Plural is a number with its noun, or with a noun and its verb: 1 pod is, 2 pods are.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Count is a number of things: 1 pod, 2 pods.
func Count(n int, thing string) string { return Plural(n, thing, thing+"s") }

// Does is what a number of things does: 1 pod restarts, 2 pods restart.
func Does(n int, thing, verb string) string { return Plural(n, thing+" "+verb+"s", thing+"s "+verb) }

// More is the last line of a list that is cut short: … 2 more.
func More(left int) string { return "… " + strconv.Itoa(left) + " more" }

// MoreOf is More with a noun: … 2 more groups.
func MoreOf(left int, one, many string) string {
	return "… " + Plural(left, "more "+one, "more "+many)
}

// List names the first few and counts the others: a, b, c and 2 more.
func List(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
