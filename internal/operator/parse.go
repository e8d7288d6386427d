package operator

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

// minRefresh is how often AWS is asked for images, subnets and security groups at most.
const minRefresh = time.Minute

type pDuration = *time.Duration

func duration(least time.Duration, of func(*Options) pDuration) func(*Options, string) error {
	return func(o *Options, v string) error {
		d, err := time.ParseDuration(v)
		switch {
		case err != nil:
			return errors.New("must be a duration such as 1s, 500ms or 1m30s")
		case d < least, d <= 0:
			return fmt.Errorf("must be at least %v", max(least, time.Nanosecond))
		}
		*of(o) = d
		return nil
	}
}

// durationOrNone is a duration, or 0 for none.
func durationOrNone(of func(*Options) pDuration) func(*Options, string) error {
	return func(o *Options, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return errors.New("must be a duration such as 30m or 1h, or 0")
		}
		*of(o) = d
		return nil
	}
}

func choice(put func(*Options, string), values ...string) func(*Options, string) error {
	return func(o *Options, v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf("must be %s", oneOf(values))
		}
		put(o, v)
		return nil
	}
}

func oneOf(values []string) string {
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

func boolean(of func(*Options) *bool) func(*Options, string) error {
	return func(o *Options, v string) (err error) {
		*of(o), err = parseBool(v)
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

func integer(least, most int64, put func(*Options, int64)) func(*Options, string) error {
	return func(o *Options, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < least || n > most {
			return fmt.Errorf("must be a whole number from %d to %d", least, most)
		}
		put(o, n)
		return nil
	}
}

func text(of func(*Options) *string, checks ...func(string) error) func(*Options, string) error {
	return func(o *Options, v string) error {
		for _, check := range checks {
			if err := check(v); err != nil {
				return err
			}
		}
		*of(o) = v
		return nil
	}
}

func required(what string) func(string) error {
	return func(v string) error {
		if v == "" {
			return fmt.Errorf("must be set to %s", what)
		}
		return nil
	}
}

func absoluteURL(v string) error {
	if v == "" {
		return nil
	}
	if at, err := url.Parse(v); err != nil || !at.IsAbs() || at.Hostname() == "" {
		return errors.New("must be a URL with scheme and host, such as https://ABC.gr7.us-west-2.eks.amazonaws.com")
	}
	return nil
}

func listenAddress(v string) error {
	if v == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(v)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
		return errors.New("must be an address with a port, such as 127.0.0.1:8082 or :8082")
	}
	return nil
}

func certificates(v string) error {
	if v == "" {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(v)
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(data) {
		return errors.New("must be certificates in PEM form, encoded in base64")
	}
	return nil
}

func paths(of func(*Options) *[]string) func(*Options, string) error {
	return func(o *Options, v string) error {
		list := strings.Split(v, ",")
		for i := range list {
			if list[i] = strings.TrimSpace(list[i]); list[i] == "" {
				return errors.New("must be stdout, stderr or names of files, separated by commas")
			}
		}
		*of(o) = list
		return nil
	}
}

func setCPURequests(o *Options, v string) error {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return errors.New("must be a whole number of thousandths of a core, such as 1000")
	}
	if n <= 0 { // the container requests none
		n = 1000
	}
	o.CPURequests = n
	return nil
}

func setMemoryLimit(o *Options, v string) error {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return errors.New("must be a whole number of bytes, or -1 for none")
	}
	o.MemoryLimitBytes = n
	return nil
}

func setMemoryOverhead(o *Options, v string) error {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f >= 0 && f < 1) {
		return errors.New("must be a share from 0 to less than 1, such as 0.075 for 7.5 %")
	}
	o.VMMemoryOverheadPercent = f
	return nil
}
