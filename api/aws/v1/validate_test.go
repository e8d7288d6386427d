package v1

import (
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

func TestVolumeGiB(t *testing.T) {
	for text, want := range map[string]int32{
		"1Gi": 1, "20Gi": 20, "59000Gi": 59000, "1G": 1, "2G": 2, "100G": 94, "64000G": 59605, "1Ti": 1024, "58Ti": 59392, "1T": 932, "64T": 59605, "1": 1, "65536Gi": 65536,
	} {
		if got, err := VolumeGiB(resource.MustParse(text)); err != nil || got != want {
			t.Errorf("%s is %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "-5Gi", "65537Gi", "1e30", "9E", "-9E", "1e99"} {
		if got, err := VolumeGiB(resource.MustParse(text)); err == nil {
			t.Errorf("%s is %d", text, got)
		}
	}
}

func TestVolumeGiB_IsEnoughAndNotMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.Int64Range(1, maxVolumeGiB<<30).Draw(t, "bytes")
		got, err := VolumeGiB(*resource.NewQuantity(bytes, resource.BinarySI))
		if err != nil || int64(got)<<30 < bytes || int64(got-1)<<30 >= bytes {
			t.Fatalf("%d bytes are %d GiB, %v", bytes, got, err)
		}
	})
}

func FuzzVolumeSize(f *testing.F) {
	for _, text := range []string{"1Gi", "64T", "58Ti", "0", "-1", "1e18", "1.5Gi", "1n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 16 { // the API server takes no more
			return
		}
		size, err := resource.ParseQuantity(text)
		if err != nil || math.IsInf(size.AsApproximateFloat64(), 0) {
			return
		}
		if got, err := VolumeGiB(size); err == nil && (got < 1 || got > maxVolumeGiB) {
			t.Fatalf("%s is %d", text, got)
		}
	})
}
