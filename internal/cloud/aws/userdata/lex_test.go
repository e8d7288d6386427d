package userdata

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// shellWords cuts one simple command into words as a shell does, and refuses anything that would make it more than one
// simple command with fixed words.
func shellWords(command string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	end := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for i := 0; i < len(command); i++ {
		switch c := command[i]; c {
		case ' ', '\t':
			end()
		case '\'':
			inWord = true
			length := strings.IndexByte(command[i+1:], '\'')
			if length < 0 {
				return nil, errors.New("a single quote is not closed")
			}
			word.WriteString(command[i+1 : i+1+length])
			i += length + 1
		case '"':
			inWord = true
			length := strings.IndexByte(command[i+1:], '"')
			if length < 0 {
				return nil, errors.New("a double quote is not closed")
			}
			inner := command[i+1 : i+1+length]
			if strings.ContainsAny(inner, "$`\\!") {
				return nil, errors.New("double quotes hold something that is expanded")
			}
			word.WriteString(inner)
			i += length + 1
		case '\\':
			i++
			if i == len(command) {
				return nil, errors.New("a backslash at the end")
			}
			if command[i] != '\n' {
				inWord = true
				word.WriteByte(command[i])
			}
		case '\n', ';', '&', '|', '<', '>', '(', ')', '$', '`', '*', '?', '[', '#', '~', '{', '!':
			return nil, errors.New("an unquoted " + string(c))
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	end()
	return words, nil
}

// powershellString reads a string in single quotes from behind its first quote and returns what follows it.
func powershellString(text string) (value, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if !strings.ContainsRune("'‘’‚‛", r) || r == utf8.RuneError {
			b.WriteString(text[i : i+size])
			i += size
			continue
		}
		i += size
		if next, nextSize := utf8.DecodeRuneInString(text[i:]); strings.ContainsRune("'‘’‚‛", next) && nextSize > 1 || next == '\'' {
			b.WriteRune(r)
			i += nextSize
			continue
		}
		return b.String(), text[i:], nil
	}
	return "", "", errors.New("a string is not closed")
}
