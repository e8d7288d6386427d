package simaws

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

func (c *call) parameterARN(name string) string {
	if strings.HasPrefix(name, "/aws/service/") {
		return "arn:aws:ssm:" + c.reg.Name + "::parameter" + name
	}
	return c.arn("ssm", "parameter/"+strings.TrimPrefix(name, "/"))
}

func (c *call) parameterJSON(p *parameter) map[string]any {
	return map[string]any{
		"Name": p.Name, "Type": "String", "Value": p.Value, "Version": p.Version, "DataType": "text",
		"ARN": c.parameterARN(p.Name), "LastModifiedDate": float64(p.At.UnixMilli()) / 1000,
	}
}

func getParameter(c *call) (any, error) {
	var in struct{ Name string }
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	name := in.Name
	// A name may be given as an ARN, with or without an account.
	if strings.HasPrefix(name, "arn:") {
		if _, path, ok := strings.Cut(name, ":parameter"); ok {
			name = path
		}
	}
	if err := c.allow("ssm:GetParameter", c.parameterARN(name), nil); err != nil {
		return nil, err
	}
	p := c.reg.Parameters[name]
	if p == nil {
		p = c.reg.Parameters[strings.TrimPrefix(name, "/")]
	}
	if p == nil {
		return nil, fail("ParameterNotFound", "")
	}
	return map[string]any{"Parameter": c.parameterJSON(p)}, nil
}

func getParameters(c *call) (any, error) {
	var in struct{ Names []string }
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	found, bad := []any{}, []string{}
	for _, n := range in.Names {
		if p := c.reg.Parameters[n]; p != nil {
			found = append(found, c.parameterJSON(p))
		} else {
			bad = append(bad, n)
		}
	}
	return map[string]any{"Parameters": found, "InvalidParameters": bad}, nil
}

func getParametersByPath(c *call) (any, error) {
	var in struct {
		Path, NextToken string
		Recursive       bool
		MaxResults      *int
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	prefix := strings.TrimSuffix(in.Path, "/") + "/"
	var names []string
	for n := range c.reg.Parameters {
		rest, ok := strings.CutPrefix(n, prefix)
		if ok && (in.Recursive || !strings.Contains(rest, "/")) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	size := 10
	if in.MaxResults != nil {
		size = *in.MaxResults
	}
	if size < 1 || size > 10 {
		return nil, fail("ValidationException", "MaxResults must be between 1 and 10, not %d", size)
	}
	part, next, err := cut(names, size, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, n := range part {
		out = append(out, c.parameterJSON(c.reg.Parameters[n]))
	}
	answer := map[string]any{"Parameters": out}
	if next != "" {
		answer["NextToken"] = next
	}
	return answer, nil
}

func putParameter(c *call) (any, error) {
	var in struct {
		Name, Value string
		Overwrite   bool
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.Name == "" || in.Value == "" {
		return nil, fail("ValidationException", "Name and Value must not be empty.")
	}
	if strings.HasPrefix(in.Name, "/aws") || strings.HasPrefix(in.Name, "aws") {
		return nil, fail("AccessDeniedException", "No access to reserved parameter name: %s.", in.Name)
	}
	old := c.reg.Parameters[in.Name]
	if old != nil && !in.Overwrite {
		return nil, fail("ParameterAlreadyExists", "The parameter already exists. To overwrite this value, set the overwrite option in the request to true.")
	}
	p := &parameter{Name: in.Name, Value: in.Value, Version: 1, At: c.at}
	if old != nil {
		p.Version = old.Version + 1
	}
	c.reg.Parameters[in.Name] = p
	return map[string]any{"Version": p.Version, "Tier": "Standard"}, nil
}

// ssmOperations is the SSM part of the operation table.
var ssmOperations = map[string]*operation{
	"GetParameter":        {json: getParameter, authorizes: true},
	"GetParameters":       {json: getParameters},
	"GetParametersByPath": {json: getParametersByPath},
	"PutParameter":        {json: putParameter, writes: true},
}

// getProducts answers the price list from the catalogue. A product exists for
// each type a region offers, under the attributes that callers filter by.
func getProducts(c *call) (any, error) {
	var in struct {
		ServiceCode, NextToken string
		MaxResults             *int
		Filters                []struct{ Type, Field, Value string }
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	size := 100
	if in.MaxResults != nil {
		size = *in.MaxResults
	}
	if size < 1 || size > 100 {
		return nil, fail("InvalidParameterException", "MaxResults must be between 1 and 100, not %d", size)
	}
	if in.ServiceCode != "AmazonEC2" {
		return nil, fail("InvalidParameterException", "The simulator has prices of AmazonEC2 only, not %q", in.ServiceCode)
	}
	regions := c.cat.Regions()
	for _, f := range in.Filters {
		if f.Field == "regionCode" {
			regions = []string{f.Value}
		}
	}
	var all []product
	for _, name := range regions {
		r, err := c.cat.Region(name)
		if err != nil {
			continue
		}
		for _, o := range r.Offers {
			if o.OnDemand > 0 {
				all = append(all, product{region: name, typ: o.Type, metal: c.cat.Type(o.Type).BareMetal, price: o.OnDemand})
			}
		}
	}
	kept := all[:0]
	for _, p := range all {
		attrs := p.attributes()
		ok := true
		for _, f := range in.Filters {
			ok = ok && attrs[f.Field] == f.Value
		}
		if ok {
			kept = append(kept, p)
		}
	}
	part, next, err := cut(kept, size, in.NextToken)
	if err != nil {
		return nil, err
	}
	list := []string{}
	for _, p := range part {
		list = append(list, p.json())
	}
	answer := map[string]any{"FormatVersion": "aws_v1", "PriceList": list}
	if next != "" {
		answer["NextToken"] = next
	}
	return answer, nil
}

type product struct {
	region, typ string
	metal       bool
	price       float64
}

func (p product) attributes() map[string]string {
	tenancy, family := "Shared", "Compute Instance"
	if p.metal {
		tenancy, family = "Dedicated", "Compute Instance (bare metal)"
	}
	return map[string]string{
		"regionCode": p.region, "instanceType": p.typ, "serviceCode": "AmazonEC2", "servicecode": "AmazonEC2", "preInstalledSw": "NA",
		"operatingSystem": "Linux", "capacitystatus": "Used", "marketoption": "OnDemand", "tenancy": tenancy, "productFamily": family,
		"operation": "RunInstances", "licenseModel": "No License required",
	}
}

func (p product) json() string {
	attrs := p.attributes()
	family := attrs["productFamily"]
	delete(attrs, "productFamily")
	sku := strings.ToUpper(uuidFrom(hashString(p.region), hashString(p.typ))[:8])
	raw, err := json.Marshal(map[string]any{
		"product":     map[string]any{"productFamily": family, "attributes": attrs, "sku": sku},
		"serviceCode": "AmazonEC2",
		"terms": map[string]any{"OnDemand": map[string]any{sku + ".JRTCKXETXF": map[string]any{
			"priceDimensions": map[string]any{sku + ".JRTCKXETXF.6YS6EN2CT7": map[string]any{
				"unit": "Hrs", "pricePerUnit": map[string]string{"USD": strconv.FormatFloat(p.price, 'f', 10, 64)},
			}},
		}}},
	})
	if err != nil {
		return "{}"
	}
	return string(raw)
}

// pricingOperations is the price list part of the operation table.
var pricingOperations = map[string]*operation{
	"GetProducts": {json: getProducts},
}
