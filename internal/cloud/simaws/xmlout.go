package simaws

import (
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// xmlWriter appends XML to a buffer. It knows just what the EC2 and query
// protocols need: elements, no attributes. Describes of thousands of instances
// are its hot path, so it neither reflects nor allocates.
type xmlWriter struct{ b []byte }

var xmlPool = sync.Pool{New: func() any { return &xmlWriter{b: make([]byte, 0, 16<<10)} }}

func newXML() *xmlWriter {
	x := xmlPool.Get().(*xmlWriter)
	x.b = x.b[:0]
	return x
}

// maxPooledXML keeps a rare huge answer from staying in memory.
const maxPooledXML = 4 << 20

func (x *xmlWriter) free() {
	if cap(x.b) <= maxPooledXML {
		xmlPool.Put(x)
	}
}

func (x *xmlWriter) raw(s string) { x.b = append(x.b, s...) }

func (x *xmlWriter) open(name string) {
	x.b = append(x.b, '<')
	x.b = append(x.b, name...)
	x.b = append(x.b, '>')
}

func (x *xmlWriter) close(name string) {
	x.b = append(x.b, '<', '/')
	x.b = append(x.b, name...)
	x.b = append(x.b, '>')
}

// clean replaces what XML cannot hold. Nearly all text is plain ASCII and
// passes as it is.
func clean(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return strings.Map(func(r rune) rune {
				if r == 0xFFFE || r == 0xFFFF {
					return utf8.RuneError
				}
				return r
			}, s)
		}
	}
	return s
}

func (x *xmlWriter) text(s string) {
	s = clean(s)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '<':
			x.raw("&lt;")
		case c == '>':
			x.raw("&gt;")
		case c == '&':
			x.raw("&amp;")
		case c == '"':
			x.raw("&#34;")
		case c == '\r':
			x.raw("&#xD;")
		case c < 0x20 && c != '\t' && c != '\n':
			x.raw("\uFFFD")
		default:
			x.b = append(x.b, c)
		}
	}
}

// str writes an element, also when it is empty.
func (x *xmlWriter) str(name, v string) {
	x.open(name)
	x.text(v)
	x.close(name)
}

// opt writes an element unless it is empty.
func (x *xmlWriter) opt(name, v string) {
	if v != "" {
		x.str(name, v)
	}
}

func (x *xmlWriter) int(name string, v int) {
	x.open(name)
	x.b = strconv.AppendInt(x.b, int64(v), 10)
	x.close(name)
}

func (x *xmlWriter) optInt(name string, v int) {
	if v != 0 {
		x.int(name, v)
	}
}

func (x *xmlWriter) float(name string, v float64) {
	x.open(name)
	x.b = strconv.AppendFloat(x.b, v, 'f', -1, 64)
	x.close(name)
}

func (x *xmlWriter) bool(name string, v bool) {
	x.open(name)
	x.b = strconv.AppendBool(x.b, v)
	x.close(name)
}

const xmlTime = "2006-01-02T15:04:05.000Z"

func (x *xmlWriter) time(name string, t time.Time) {
	if t.IsZero() {
		return
	}
	x.open(name)
	x.b = t.UTC().AppendFormat(x.b, xmlTime)
	x.close(name)
}

// in writes an element around what body writes.
func (x *xmlWriter) in(name string, body func()) {
	x.open(name)
	body()
	x.close(name)
}

// strs writes a list of strings in EC2's form.
func (x *xmlWriter) strs(name, item string, vs []string) {
	x.open(name)
	for _, v := range vs {
		x.str(item, v)
	}
	x.close(name)
}

func (x *xmlWriter) tagSet(tags tagSet) {
	x.tagsAs("tagSet", "item", tags)
}

// tagsAs writes tags with EC2's lower-case names under "item", or with IAM's
// and CloudFormation's capital ones under "member".
func (x *xmlWriter) tagsAs(name, item string, tags tagSet) {
	if len(tags) == 0 && item == "item" {
		return
	}
	k, v := "key", "value"
	if item == "member" {
		k, v = "Key", "Value"
	}
	x.open(name)
	for _, t := range tags {
		x.open(item)
		x.str(k, t.Key)
		x.str(v, t.Value)
		x.close(item)
	}
	x.close(name)
}
