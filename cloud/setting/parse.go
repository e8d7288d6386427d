package setting

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Duration is at least so long, and longer than nothing.
func Duration(into *time.Duration, least time.Duration) func(string) error {
	return func(v string) error {
		d, err := time.ParseDuration(v)
		switch {
		case err != nil:
			return errors.New("must be a duration such as 1s, 500ms or 1m30s")
		case d < least, d <= 0:
			return fmt.Errorf("must be at least %v", max(least, time.Nanosecond))
		}
		*into = d
		return nil
	}
}

// DurationOrNone is a duration, or 0 for none.
func DurationOrNone(into *time.Duration) func(string) error {
	return func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return errors.New("must be a duration such as 30m or 1h, or 0")
		}
		*into = d
		return nil
	}
}

// Choice is one of several words.
func Choice[T ~string](into *T, values ...T) func(string) error {
	return func(v string) error {
		if !slices.Contains(values, T(v)) {
			return fmt.Errorf("must be %s", OneOf(values))
		}
		*into = T(v)
		return nil
	}
}

// OneOf lists words of which one is to be taken.
func OneOf[T ~string](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Bool is true or false.
func Bool(into *bool) func(string) error {
	return func(v string) (err error) {
		*into, err = parseBool(v)
		return err
	}
}

// parseBool takes the two words only, so that a typing error is none of the many spellings of true and false.
func parseBool(v string) (bool, error) {
	switch v {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("must be true or false")
}

// Integer is a whole number within bounds.
func Integer[T ~int | ~int64](into *T, least, most int64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < least || n > most {
			return fmt.Errorf("must be a whole number from %d to %d", least, most)
		}
		*into = T(n)
		return nil
	}
}

// Text is any text that passes the checks.
func Text(into *string, checks ...func(string) error) func(string) error {
	return func(v string) error {
		for _, check := range checks {
			if err := check(v); err != nil {
				return err
			}
		}
		*into = v
		return nil
	}
}

// Required refuses an empty text.
func Required(what string) func(string) error {
	return func(v string) error {
		if v == "" {
			return fmt.Errorf("must be set to %s", what)
		}
		return nil
	}
}

// AbsoluteURL takes nothing, or a URL like the example.
func AbsoluteURL(example string) func(string) error {
	return func(v string) error {
		if v == "" {
			return nil
		}
		if at, err := url.Parse(v); err != nil || !at.IsAbs() || at.Hostname() == "" {
			return errors.New("must be a URL with scheme and host, such as " + example)
		}
		return nil
	}
}

// ListenAddress takes nothing, or an address that can be listened on.
func ListenAddress(v string) error {
	if v == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(v)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
		return errors.New("must be an address with a port, such as 127.0.0.1:8082 or :8082")
	}
	return nil
}

// Certificates takes nothing, or certificates in base64.
func Certificates(v string) error {
	if v == "" {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(v)
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(data) {
		return errors.New("must be certificates in PEM form, encoded in base64")
	}
	return nil
}

// Paths are names of files, or of the standard streams.
func Paths(into *[]string) func(string) error {
	return func(v string) error {
		list := strings.Split(v, ",")
		for i := range list {
			if list[i] = strings.TrimSpace(list[i]); list[i] == "" {
				return errors.New("must be stdout, stderr or names of files, separated by commas")
			}
		}
		*into = list
		return nil
	}
}

// Share is a part of a whole, less than all of it.
func Share(into *float64) func(string) error {
	return func(v string) error {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || !(f >= 0 && f < 1) {
			return errors.New("must be a share from 0 to less than 1, such as 0.075 for 7.5 %")
		}
		*into = f
		return nil
	}
}
