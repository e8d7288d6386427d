package simaws

import (
	"slices"
	"time"
)

func (c *call) imageField(i *image) field {
	return func(name string, out []string) ([]string, bool) {
		switch name {
		case "image-id":
			return append(out, i.ID), true
		case "name":
			return append(out, i.Name), true
		case "description":
			return append(out, i.Description), true
		case "architecture":
			return append(out, i.Arch), true
		case "state":
			return append(out, i.State), true
		case "owner-id":
			return append(out, i.Owner), true
		case "owner-alias":
			return append(out, i.OwnerAlias), true
		case "platform":
			return append(out, i.Platform), true
		case "is-public":
			return append(out, boolWord(i.Public)), true
		case "creation-date":
			return append(out, i.Created.Format(xmlTime)), true
		case "virtualization-type":
			return append(out, "hvm"), true
		case "root-device-type":
			return append(out, "ebs"), true
		case "root-device-name":
			return append(out, i.RootDevice), true
		case "image-type":
			return append(out, "machine"), true
		case "hypervisor":
			return append(out, "xen"), true
		}
		return tagField(i.Tags, name, out)
	}
}

func describeImages(c *call) error {
	ids, owners := c.q.strs("ImageId"), c.q.strs("Owner")
	all, err := pick[image]{ids, notFound("InvalidAMIID.NotFound", "The image id '[%s]' does not exist"), c.imageField}.from(c, c.reg.Images)
	if err != nil {
		return err
	}
	deprecated := c.q.bool("IncludeDeprecated")
	kept := all[:0]
	for _, i := range all {
		mine := i.Owner == c.acct.ID
		owned := len(owners) == 0 || slices.Contains(owners, i.Owner) || slices.Contains(owners, "self") && mine ||
			i.OwnerAlias != "" && slices.Contains(owners, i.OwnerAlias)
		old := !i.Deprecated.IsZero() && i.Deprecated.Before(c.at)
		if owned && (!old || deprecated || mine || len(ids) > 0) && !c.empty {
			kept = append(kept, i)
		}
	}
	part, next, err := page(c, kept, pages{1, 1000, 0})
	if err != nil {
		return err
	}
	c.x.in("imagesSet", func() {
		for _, i := range part {
			c.x.in("item", func() { c.writeImage(i) })
		}
	})
	c.x.opt("nextToken", next)
	return nil
}

func (c *call) writeImage(i *image) {
	x := c.x
	x.str("imageId", i.ID)
	x.str("imageState", i.State)
	x.str("creationDate", i.Created.Format(xmlTime))
	if !i.Deprecated.IsZero() {
		x.str("deprecationTime", i.Deprecated.Format(xmlTime))
	}
	x.str("architecture", i.Arch)
	x.str("name", i.Name)
	if c.opt.Brief {
		return
	}
	x.str("imageLocation", orDefault(i.OwnerAlias, i.Owner)+"/"+i.Name)
	x.str("imageOwnerId", i.Owner)
	x.opt("imageOwnerAlias", i.OwnerAlias)
	x.bool("isPublic", i.Public)
	x.str("imageType", "machine")
	x.opt("platform", i.Platform)
	x.opt("description", i.Description)
	x.str("rootDeviceType", "ebs")
	x.str("rootDeviceName", i.RootDevice)
	x.in("blockDeviceMapping", func() {
		x.in("item", func() {
			x.str("deviceName", i.RootDevice)
			x.in("ebs", func() {
				x.str("snapshotId", i.Snapshot)
				x.int("volumeSize", i.SizeGB)
				x.bool("deleteOnTermination", true)
				x.str("volumeType", "gp3")
				x.bool("encrypted", false)
			})
		})
	})
	x.str("virtualizationType", "hvm")
	x.str("hypervisor", "xen")
	x.bool("enaSupport", true)
	x.tagSet(i.Tags)
}

func copyImage(c *call) error {
	src := c.reg.Images.get(c.q.str("SourceImageId"))
	if from := c.q.str("SourceRegion"); from != "" && from != c.reg.Name {
		r, err := c.Sim.region(c.acct, from)
		if err != nil {
			return err
		}
		src = r.Images.get(c.q.str("SourceImageId"))
	}
	if src == nil {
		return fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", c.q.str("SourceImageId"))
	}
	if c.q.str("Name") == "" {
		return missing("Name")
	}
	dup := *src
	dup.ID, dup.Name, dup.Owner, dup.OwnerAlias, dup.Public = c.id("ami-", 17), c.q.str("Name"), c.acct.ID, "", false
	dup.Description, dup.Created, dup.Deprecated = c.q.str("Description"), c.at, time.Time{}
	dup.Tags = c.tagsFor("image")
	c.reg.Images.put(dup.ID, &dup)
	c.x.str("imageId", dup.ID)
	return nil
}

func (c *call) ownImage() (*image, error) {
	i := c.reg.Images.get(c.q.str("ImageId"))
	if i == nil {
		return nil, fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", c.q.str("ImageId"))
	}
	if i.Owner != c.acct.ID {
		return nil, fail("AuthFailure", "Not authorized for image:%s", i.ID)
	}
	return i, nil
}

func enableImageDeprecation(c *call) error {
	i, err := c.ownImage()
	if err != nil {
		return err
	}
	at := c.q.time("DeprecateAt")
	if err := c.q.err(); err != nil {
		return err
	}
	if at.IsZero() {
		return missing("DeprecateAt")
	}
	i.Deprecated = at
	c.x.bool("return", true)
	return nil
}

func deregisterImage(c *call) error {
	i, err := c.ownImage()
	if err != nil {
		return err
	}
	c.reg.Images.delete(i.ID)
	c.x.bool("return", true)
	return nil
}
