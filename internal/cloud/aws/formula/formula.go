// Package formula works out the expressions that an EC2NodeClass may have in place of kubelet settings, such as
// min(110, max_pods) or 11 * max_pods + 255.
//
// The language is CEL, the expression language of Kubernetes, with min and max of two numbers besides. The length of an
// expression, its depth and what it may cost to work out are bounded. Everything is a pure function of its arguments.
package formula

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Variables are what an expression can refer to: facts of one instance type.
type Variables struct {
	// VCPUs is vcpus, MemoryMiB memory_mib.
	VCPUs, MemoryMiB int64
	// DefaultENIs is default_enis: the interfaces of the default network card. IPsPerENI is ips_per_eni.
	DefaultENIs, IPsPerENI int64
	// MaxPods is max_pods: as many pods as the type runs by default, or as maxPods says for whatever comes after it.
	MaxPods int64
	// InstanceType is instance_type, for example m5.large.
	InstanceType string
}

// Formula is an expression that can be worked out.
type Formula struct{ program cel.Program }

const (
	// maxLength is what the API server accepts at most.
	maxLength = 1024
	// maxDepth bounds how deep parts can be nested, for the sake of the stack.
	maxDepth = 64
	// maxCost bounds what working out may cost, in CEL's units of about one operation each: macros within macros can take
	// for ever in a short text. What settings need is some dozens.
	maxCost = 10_000
)

// hint follows what CEL says of names and types.
const hint = "; there are default_enis, instance_type, ips_per_eni, max_pods, memory_mib and vcpus, functions of CEL, min and max; int() and double() make numbers the same"

// environment is made when the first expression is read: a controller without expressions pays nothing for it.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("vcpus", cel.IntType), cel.Variable("memory_mib", cel.IntType), cel.Variable("default_enis", cel.IntType),
		cel.Variable("ips_per_eni", cel.IntType), cel.Variable("max_pods", cel.IntType), cel.Variable("instance_type", cel.StringType),
		extreme("min", func(a, b float64) bool { return a < b }), extreme("max", func(a, b float64) bool { return a > b }),
		cel.CrossTypeNumericComparisons(true), cel.ParserRecursionLimit(maxDepth), cel.ParserExpressionSizeLimit(maxLength),
	)
})

// extreme is the one of two numbers that comes before the other; a fraction if one of them is.
func extreme(name string, before func(a, b float64) bool) cel.EnvOption {
	pick := cel.BinaryBinding(func(a, b ref.Val) ref.Val {
		if x, is := a.(types.Int); is {
			if y, is := b.(types.Int); is {
				if order := x.Compare(y); order != types.IntZero && before(float64(order.(types.Int)), 0) {
					return x
				}
				return y
			}
		}
		x, y := a.ConvertToType(types.DoubleType), b.ConvertToType(types.DoubleType)
		if before(float64(x.(types.Double)), float64(y.(types.Double))) {
			return x
		}
		return y
	})
	var overloads []cel.FunctionOpt
	for _, a := range []*cel.Type{cel.IntType, cel.DoubleType} {
		for _, b := range []*cel.Type{cel.IntType, cel.DoubleType} {
			result := cel.IntType
			if a == cel.DoubleType || b == cel.DoubleType {
				result = cel.DoubleType
			}
			overloads = append(overloads, cel.Overload(name+"_"+a.String()+"_"+b.String(), []*cel.Type{a, b}, result, pick))
		}
	}
	return cel.Function(name, overloads...)
}

// Parse reads an expression, checks that its types fit, and that it gives a number. An error says where it goes wrong.
func Parse(text string) (*Formula, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	parsed, wrong := env.Parse(text)
	if wrong.Err() != nil {
		return nil, located(wrong, "")
	}
	checked, wrong := env.Check(parsed)
	if wrong.Err() != nil {
		return nil, located(wrong, hint)
	}
	switch kind := checked.OutputType(); kind {
	case cel.IntType, cel.UintType, cel.DoubleType, cel.DynType:
	default:
		return nil, fmt.Errorf("gives %s, where a number is needed", kind)
	}
	program, err := env.Program(checked, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, err
	}
	return &Formula{program}, nil
}

// located is the first thing that is wrong, and where, on one line.
func located(wrong *cel.Issues, hint string) error {
	first := wrong.Errors()[0]
	message, _, _ := strings.Cut(strings.TrimPrefix(first.Message, "Syntax error: "), "\n")
	if line := first.Location.Line(); line > 1 {
		return fmt.Errorf("at line %d, character %d: %s%s", line, first.Location.Column()+1, message, hint)
	}
	return fmt.Errorf("at character %d: %s%s", max(first.Location.Column(), 0)+1, message, hint)
}

// Number works the expression out. A fraction is cut off; what is negative or beyond 32 bits is an error, and so is a
// division by zero.
func (f *Formula) Number(v Variables) (int64, error) {
	result, _, err := f.program.Eval(map[string]any{
		"vcpus": v.VCPUs, "memory_mib": v.MemoryMiB, "default_enis": v.DefaultENIs, "ips_per_eni": v.IPsPerENI, "max_pods": v.MaxPods, "instance_type": v.InstanceType,
	})
	if err != nil {
		return 0, err
	}
	var whole int64
	switch n := result.Value().(type) {
	case int64:
		whole = n
	case uint64:
		whole = int64(min(n, math.MaxInt64))
	case float64:
		if math.IsNaN(n) || math.IsInf(n, 0) {
			return 0, fmt.Errorf("gives %v, where a number is needed", n)
		}
		whole = int64(math.Trunc(max(min(n, math.MaxInt64/2), math.MinInt64/2)))
	default:
		return 0, errors.New("gives " + result.Type().TypeName() + ", where a number is needed")
	}
	if whole < 0 || whole > math.MaxInt32 {
		return 0, fmt.Errorf("gives %d, which is not from 0 to %d", whole, math.MaxInt32)
	}
	return whole, nil
}
