package userdata

import (
	"mime"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Content types that cloud-init and nodeadm act on.
const (
	typeShell      = "text/x-shellscript"
	typeNodeConfig = "application/node.eks.aws"
)

// part is one part of a MIME multi-part archive as it stands between two boundaries: header lines, an empty line,
// content. It is kept as text, so that headers that we know nothing of (a transfer encoding, a merge type) survive.
type part string

func newPart(contentType, content string) part {
	return part("Content-Type: " + contentType + "\n\n" + content)
}

// newShellPart wraps a script. The charset is what cloud-init decodes it by.
func newShellPart(script string) part {
	charset := "us-ascii"
	for i := range len(script) {
		if script[i] >= utf8.RuneSelf {
			charset = "utf-8"
			break
		}
	}
	return newPart(typeShell+`; charset="`+charset+`"`, script)
}

// writeArchive joins parts. Carriage returns go: a script that has them does not run.
func writeArchive(parts []part) string {
	for i := range parts {
		parts[i] = part(strings.ReplaceAll(string(parts[i]), "\r", ""))
	}
	boundary := chooseBoundary(parts)
	var b strings.Builder
	b.WriteString("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"" + boundary + "\"\n\n")
	for _, p := range parts {
		b.WriteString("--" + boundary + "\n")
		b.WriteString(string(p))
		b.WriteString("\n")
	}
	b.WriteString("--" + boundary + "--\n")
	return b.String()
}

// chooseBoundary finds text with which no line of any part begins, as it would end the part there. An archive within
// a part is what makes the first choice fail in practice.
func chooseBoundary(parts []part) string {
	boundary := "//"
	for n := 1; ; n++ {
		if !anyLineBegins(parts, "--"+boundary) {
			return boundary
		}
		boundary = "karpenter-" + strconv.Itoa(n)
	}
}

func anyLineBegins(parts []part, prefix string) bool {
	for _, p := range parts {
		if strings.HasPrefix(string(p), prefix) || strings.Contains(string(p), "\n"+prefix) {
			return true
		}
	}
	return false
}

// isArchive reports whether text means to be a MIME archive, be it a good one or not.
func isArchive(text string) bool {
	first, rest, _ := strings.Cut(text, "\n")
	if name, _, is := strings.Cut(first, ":"); is && (strings.EqualFold(name, "MIME-Version") || strings.EqualFold(name, "Content-Type")) {
		return true
	}
	// Parts without the header that names their boundary.
	second, _, _ := strings.Cut(rest, "\n")
	name, _, is := strings.Cut(second, ":")
	return strings.HasPrefix(first, "--") && is && strings.EqualFold(name, "Content-Type")
}

// archiveReader reads the parts of an archive line by line, to say on which line something is wrong.
type archiveReader struct {
	lines []string
	// first is the line of spec.userData on which lines[0] stands, counted from 1.
	first int
	next  int
}

// readArchive cuts a MIME archive into its parts. An archive that lacks its last boundary is taken as it is: cloud-init
// and nodeadm do so too.
func readArchive(text string, firstLine int) ([]part, error) {
	r := &archiveReader{lines: strings.Split(strings.ReplaceAll(text, "\r", ""), "\n"), first: firstLine}
	boundary, err := r.readBoundary()
	if err != nil {
		return nil, err
	}
	if !r.skipTo(boundary) {
		return nil, r.wrong(r.next, "the MIME archive has no part: there is no line "+quoted("--"+boundary), "begin every part with that line and end the last with it and two more hyphens")
	}
	var parts []part
	for {
		begin := r.next
		more := r.skipTo(boundary)
		end := r.next
		if more {
			end-- // without the boundary
		}
		body := r.lines[begin:end]
		if err := r.checkPart(body, begin); err != nil {
			return nil, err
		}
		if content := strings.Join(body, "\n"); strings.TrimSpace(content) != "" {
			parts = append(parts, part(content))
		}
		if !more || r.closes(r.next-1, boundary) {
			return parts, nil
		}
	}
}

// readBoundary reads the archive's own header.
func (r *archiveReader) readBoundary() (string, error) {
	contentType, at := "", 0
	for ; r.next < len(r.lines) && r.lines[r.next] != ""; r.next++ {
		line := r.lines[r.next]
		if line[0] == ' ' || line[0] == '\t' { // goes on with the line before
			if contentType != "" && r.next == at+1 {
				contentType, at = contentType+line, r.next
			}
			continue
		}
		name, value, is := strings.Cut(line, ":")
		if !is || !isHeaderName(name) {
			return "", r.wrong(r.next, quoted(line)+" is not a header of a MIME archive", "write Name: value, and an empty line after the last header")
		}
		if strings.EqualFold(name, "Content-Type") {
			contentType, at = value, r.next
		}
	}
	const cure = `write the header Content-Type: multipart/mixed; boundary="BOUNDARY"`
	if contentType == "" {
		return "", r.wrong(0, "the MIME archive has no Content-Type", cure)
	}
	media, parameters, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
		return "", r.wrong(at, quoted(strings.TrimSpace(contentType))+" is not a content type", cure)
	case !strings.HasPrefix(media, "multipart/"):
		return "", r.wrong(at, "the content type is "+quoted(media)+" and not multipart", cure+", or give a script without headers")
	case parameters["boundary"] == "":
		return "", r.wrong(at, "the content type has no boundary", cure)
	}
	return parameters["boundary"], nil
}

// skipTo moves behind the next boundary, or to the end if there is none.
func (r *archiveReader) skipTo(boundary string) bool {
	for r.next < len(r.lines) {
		line := strings.TrimRight(r.lines[r.next], " \t")
		r.next++
		if line == "--"+boundary || line == "--"+boundary+"--" {
			return true
		}
	}
	return false
}

func (r *archiveReader) closes(line int, boundary string) bool {
	return strings.TrimRight(r.lines[line], " \t") == "--"+boundary+"--"
}

// checkPart refuses headers that would make a parser give up on the whole archive, our own part included.
func (r *archiveReader) checkPart(lines []string, at int) error {
	if strings.TrimSpace(strings.Join(lines, "")) == "" {
		return nil
	}
	for i, line := range lines {
		if line == "" {
			return nil
		}
		if i > 0 && (line[0] == ' ' || line[0] == '\t') {
			continue
		}
		name, value, is := strings.Cut(line, ":")
		if !is || !isHeaderName(name) {
			return r.wrong(at+i, quoted(line)+" is not a header of a MIME part", "write Content-Type: text/x-shellscript, then an empty line, then the script")
		}
		if strings.EqualFold(name, "Content-Type") {
			if _, _, err := mime.ParseMediaType(value); err != nil && !continued(lines, i) {
				return r.wrong(at+i, quoted(strings.TrimSpace(value))+" is not a content type", "write for example Content-Type: text/x-shellscript")
			}
		}
	}
	return r.wrong(at, "the MIME part has no empty line after its headers", "put one between the last header and the content")
}

// isHeaderName says whether parsers take it for the name of a header: letters, digits and a few signs.
func isHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// continued reports whether the header at i goes on in the next line.
func continued(lines []string, i int) bool {
	return i+1 < len(lines) && lines[i+1] != "" && (lines[i+1][0] == ' ' || lines[i+1][0] == '\t')
}

func (r *archiveReader) wrong(line int, wrong, cure string) error {
	return &InputError{Field: fieldUserData, Line: r.first + min(line, len(r.lines)-1), Wrong: wrong, Cure: cure}
}
