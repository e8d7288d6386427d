package boot

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
)

// part is one part of multipart user data.
type part struct{ kind, text string }

// maxParts bounds how many parts are read; cloud-init has no business with
// more within 16 KiB.
const maxParts = 64

// parts splits multipart user data; other text is one part of unknown kind.
func parts(text string) ([]part, error) {
	head := text[:min(len(text), 400)]
	if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(head)), "mime-version:") && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(head)), "content-type:") {
		return []part{{"", text}}, nil
	}
	msg, err := mail.ReadMessage(strings.NewReader(strings.TrimLeft(text, " \r\n\t")))
	if err != nil {
		return nil, fmt.Errorf("user data looks like MIME but its header is malformed: %w", err)
	}
	kind, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("user data's Content-Type %q is malformed: %w", msg.Header.Get("Content-Type"), err)
	}
	if !strings.HasPrefix(kind, "multipart/") {
		body, err := io.ReadAll(msg.Body)
		return []part{{kind, string(body)}}, err
	}
	var out []part
	r := multipart.NewReader(msg.Body, params["boundary"])
	for range maxParts {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("user data's MIME parts are malformed: %w", err)
		}
		var body io.Reader = p
		if p.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
			body = quotedprintable.NewReader(p)
		}
		raw, err := io.ReadAll(body)
		if err != nil {
			return nil, fmt.Errorf("user data's MIME parts are malformed: %w", err)
		}
		k, _, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if err != nil {
			k = p.Header.Get("Content-Type")
		}
		out = append(out, part{k, string(raw)})
	}
	return nil, fmt.Errorf("user data has more than %d MIME parts", maxParts)
}

const bootstrapPath = "/etc/eks/bootstrap.sh"

// bootstrapScript reads AL2 user data: shell scripts, of which one calls
// bootstrap.sh. When several do, the last one's settings are in force.
func (n *Node) bootstrapScript(text string) error {
	ps, err := parts(text)
	if err != nil {
		return err
	}
	var call []string
	for _, p := range ps {
		if p.kind != "" && !strings.HasPrefix(p.kind, "text/x-shellscript") {
			continue
		}
		if !strings.HasPrefix(strings.TrimSpace(p.text), "#!") {
			return errors.New("cloud-init: the user data script does not begin with #!, so it is not run")
		}
		words, err := findCall(p.text)
		if err != nil {
			return err
		}
		if words != nil {
			call = words
		}
	}
	if call == nil {
		return fmt.Errorf("no script in the user data calls %s, so the kubelet is never configured", bootstrapPath)
	}
	return n.bootstrapArgs(call)
}

// findCall finds the arguments of the last call of bootstrap.sh in a script.
func findCall(script string) ([]string, error) {
	script = strings.ReplaceAll(script, "\\\r\n", " ")
	script = strings.ReplaceAll(script, "\\\n", " ")
	var found []string
	for line := range strings.SplitSeq(script, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		_, args, ok := strings.Cut(line, bootstrapPath)
		if !ok {
			continue
		}
		words, err := shellWords(args)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", bootstrapPath, err)
		}
		found = words
		if found == nil {
			found = []string{}
		}
	}
	return found, nil
}

func (n *Node) bootstrapArgs(words []string) error {
	for i := 0; i < len(words); i++ {
		name := words[i]
		if !strings.HasPrefix(name, "--") {
			if n.ClusterName == "" {
				n.ClusterName = name
			}
			continue
		}
		name, value, inline := strings.Cut(name, "=")
		if !inline {
			if i++; i == len(words) {
				return fmt.Errorf("%s: %s has no value", bootstrapPath, name)
			}
			value = words[i]
		}
		switch name {
		case "--apiserver-endpoint":
			n.Endpoint = value
		case "--b64-cluster-ca":
			n.CA = value
		case "--dns-cluster-ip":
			n.ClusterDNS = strings.Split(value, ",")
		case "--ip-family":
			n.IPv6 = value == "ipv6"
		case "--service-ipv6-cidr":
			n.ServiceCIDR = value
		case "--local-disks":
			n.LocalStorage = value
		case "--kubelet-extra-args":
			if err := n.kubeletArgs(value); err != nil {
				return err
			}
		case "--use-max-pods", "--container-runtime", "--pause-container-account", "--pause-container-version", "--aws-api-retry-attempts",
			"--docker-config-json", "--containerd-config-file", "--cluster-id", "--enable-docker-bridge", "--enable-local-outpost", "--mount-bpf-fs":
		default:
			return fmt.Errorf("%s: unknown option %s", bootstrapPath, name)
		}
	}
	if n.IPv6 && n.ServiceCIDR == "" && len(n.ClusterDNS) == 0 {
		return fmt.Errorf("%s: with --ip-family ipv6 either --service-ipv6-cidr or --dns-cluster-ip must be given", bootstrapPath)
	}
	return nil
}

// shellWords splits a command line by the quoting rules of a shell. It stops at
// a redirection or the end of the command.
func shellWords(s string) ([]string, error) {
	var out []string
	var b strings.Builder
	in := false
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '\'':
			b.WriteByte(c)
		case c == '\\' && i+1 < len(s):
			i++
			in = true
			// Inside double quotes a backslash only escapes a few characters.
			if quote == '"' && strings.IndexByte("\"\\$`", s[i]) < 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(s[i])
		case quote == '"':
			b.WriteByte(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t':
			if in {
				out = append(out, b.String())
				b.Reset()
				in = false
			}
		case c == '>' && !in || c == ';' || c == '|' || c == '&':
			if in {
				out = append(out, b.String())
			}
			return out, nil
		default:
			b.WriteByte(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %c is not closed", quote)
	}
	if in {
		out = append(out, b.String())
	}
	return out, nil
}

// powershell reads Windows user data: the block between the tags calls
// Start-EKSBootstrap.ps1.
func (n *Node) powershell(text string) error {
	_, rest, ok := strings.Cut(text, "<powershell>")
	if !ok {
		return errors.New("user data has no <powershell> block, so nothing is run")
	}
	script, _, ok := strings.Cut(rest, "</powershell>")
	if !ok {
		return errors.New("the <powershell> block is not closed")
	}
	line := ""
	for l := range strings.SplitSeq(strings.ReplaceAll(script, "`\n", " "), "\n") {
		if strings.Contains(l, "-EKSClusterName") {
			line = l
		}
	}
	if line == "" {
		return errors.New("the PowerShell block does not call the bootstrap script with -EKSClusterName")
	}
	words, err := powershellWords(line)
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(words); i++ {
		value := words[i+1]
		switch words[i] {
		case "-EKSClusterName":
			n.ClusterName = value
		case "-APIServerEndpoint":
			n.Endpoint = value
		case "-Base64ClusterCA":
			n.CA = value
		case "-DNSClusterIP":
			n.ClusterDNS = []string{value}
		case "-ServiceCIDR":
			n.ServiceCIDR = value
		case "-KubeletExtraArgs":
			if err := n.kubeletArgs(value); err != nil {
				return err
			}
		default:
			continue
		}
		i++
	}
	return nil
}

// powershellWords splits a line; both quotes hold literally here, a doubled
// quote stands for itself.
func powershellWords(s string) ([]string, error) {
	var out []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimLeft(s, " \t\r") {
		if q := s[0]; q == '\'' || q == '"' {
			var b strings.Builder
			i := 1
			for ; i < len(s); i++ {
				if s[i] != q {
					b.WriteByte(s[i])
				} else if i+1 < len(s) && s[i+1] == q {
					b.WriteByte(q)
					i++
				} else {
					break
				}
			}
			if i == len(s) {
				return nil, fmt.Errorf("PowerShell: a %c is not closed", q)
			}
			out = append(out, b.String())
			s = s[i+1:]
			continue
		}
		end := strings.IndexAny(s, " \t\r")
		if end < 0 {
			end = len(s)
		}
		out = append(out, s[:end])
		s = s[end:]
	}
	return out, nil
}
