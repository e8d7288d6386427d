package userdata

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// fieldUserData is the field that most errors are about.
const fieldUserData = "spec.userData"

// InputError says that something cannot go into user data because the instance would not boot with it.
type InputError struct {
	// Field is where it was given, for example spec.userData or spec.kubelet.evictionHard[memory.available].
	Field string
	// Line is the line of spec.userData, counted from 1, or 0 where lines mean nothing.
	Line int
	// Wrong says what is wrong, Cure what would be right.
	Wrong, Cure string
}

func (e *InputError) Error() string {
	at := e.Field
	if e.Line > 0 {
		at += ", line " + strconv.Itoa(e.Line)
	}
	return at + ": " + e.Wrong + "; " + e.Cure
}

// SizeError says that EC2 would refuse the user data as too long.
type SizeError struct {
	// Size is the length of the whole in bytes, OfUser that of spec.userData before it was merged.
	Size, OfUser int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf(
		"%s: user data has %d bytes, of which %d came from %s, and EC2 takes at most %d; remove %d bytes, or put the work into the AMI or into a script that the instance downloads",
		fieldUserData, e.Size, e.OfUser, fieldUserData, MaxBytes, e.Size-MaxBytes)
}

// quotedBytes bounds how much of a wrong value an error repeats: messages end up in conditions and events.
const quotedBytes = 64

// quoted shows a value in an error without line breaks and without its full length.
func quoted(s string) string {
	return strconv.Quote(short(s))
}

func short(s string) string {
	if len(s) <= quotedBytes {
		return s
	}
	cut := quotedBytes
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// lineAt is the line, counted from 1, on which the byte at offset stands.
func lineAt(text string, offset int) int {
	return 1 + strings.Count(text[:min(max(offset, 0), len(text))], "\n")
}
