package cli

import "karpenter/internal/model"

// The few colours that are used: those of every terminal since the seventies.
const (
	paintOff    = "\x1b[0m"
	paintBold   = "\x1b[1m"
	paintDim    = "\x1b[2m"
	paintInvert = "\x1b[7m"
	paintRed    = "\x1b[31m"
	paintGreen  = "\x1b[32m"
	paintYellow = "\x1b[33m"
)

func (v *topView) with(code, text string) string {
	if !v.colour || text == "" {
		return text
	}
	return code + text + paintOff
}

func (v *topView) bold(text string) string { return v.with(paintBold, text) }

func (v *topView) dim(text string) string { return v.with(paintDim, text) }

func (v *topView) warn(bad bool, text string) string {
	if !bad {
		return text
	}
	return v.with(paintRed, text)
}

// paint colours a row by the node's state. The chosen row is turned around, or marked where there are no colours.
func (v *topView) paint(n *model.FleetNode, line string, chosen bool) string {
	if chosen {
		if v.colour {
			return v.with(paintInvert, line)
		}
		return ">" + dropFirst(line)
	}
	switch {
	case n.State == model.NodeNotReady:
		return v.with(paintRed, line)
	case n.State != model.NodeReady:
		return v.with(paintYellow, line)
	case n.Removable == "yes":
		return v.with(paintGreen, line)
	}
	return line
}

// dropFirst is a line without its first character.
func dropFirst(line string) string {
	for i := range line {
		if i > 0 {
			return line[i:]
		}
	}
	return ""
}
