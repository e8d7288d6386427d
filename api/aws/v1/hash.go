package v1

import (
	"strconv"

	"github.com/mitchellh/hashstructure/v2"
)

// EC2NodeClassHashVersion names the way EC2NodeClass.Hash counts. Claims that carry another version are given
// the new hash and are not drifted by it. Upstream's v6 counts kubelet settings in a way whose values are not published, and its v5 does
// not know all fields, so that this version has a name of its own: neither takes our hashes for its own, nor we theirs.
const EC2NodeClassHashVersion = "v6-own"

// Hash returns the drift hash of the class. The selector terms are left out, because drift of what they select is
// judged by what they find; so is amiFamily in favour of the family it resolves to. caBundle is the cluster's
// certificate authority as it goes into user data, empty if unknown. Order in lists does not matter and unset fields do
// not count. For classes without fields that are newer the value is upstream's v5. The names of structs and fields are
// part of the result: renaming one in this package would replace every node of every user, unless EC2NodeClassHashVersion
// changes too.
func (c *EC2NodeClass) Hash(caBundle string) string {
	sum, err := hashstructure.Hash([]any{c.Spec, c.AMIFamily(), caBundle}, hashstructure.FormatV2, &hashstructure.HashOptions{
		SlicesAsSets:    true,
		IgnoreZeroValue: true,
		ZeroNil:         true,
	})
	if err != nil {
		// Only an invalid hash tag can cause this, which is a mistake in this package that any test shows.
		panic("hashing an EC2NodeClass: " + err.Error())
	}
	return strconv.FormatUint(sum, 10)
}
