package v1

import (
	"strconv"

	"github.com/mitchellh/hashstructure/v2"
)

// NodePoolHashVersion names the way NodePool.Hash counts. Claims that carry another version are given the
// new hash and are not drifted by it (A61).
const NodePoolHashVersion = "v3"

// Hash returns the drift hash of the pool's template (A60). Requirements are left out, order in lists does not
// matter and unset fields do not count. The names of structs and fields are part of the result: renaming one
// in this package would replace every node of every user, unless NodePoolHashVersion changes too.
func (p *NodePool) Hash() string {
	sum, err := hashstructure.Hash(p.Spec.Template, hashstructure.FormatV2, &hashstructure.HashOptions{
		SlicesAsSets:    true,
		IgnoreZeroValue: true,
		ZeroNil:         true,
	})
	if err != nil {
		// Only an invalid hash tag can cause this, which is a mistake in this package that any test shows.
		panic("hashing a NodePool template: " + err.Error())
	}
	return strconv.FormatUint(sum, 10)
}
