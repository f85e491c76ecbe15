package web

import (
	"net"
	"net/netip"

	"github.com/labstack/echo/v4"
)

// addressOf tells by which address a client comes: that of its connection, or what
// a trusted proxy says in X-Forwarded-For. What anybody else says there does not
// count, or each request could come from an address of its own.
func addressOf(trustedProxies []netip.Prefix) echo.IPExtractor {
	if len(trustedProxies) == 0 {
		return echo.ExtractIPDirect()
	}
	return echo.ExtractIPFromXFFHeader(only(trustedProxies)...)
}

// schemeOf tells whether a client uses TLS: by its connection, or by what a trusted
// proxy says in X-Forwarded-Proto.
func schemeOf(trustedProxies []netip.Prefix) echo.SchemeExtractor {
	return echo.ExtractSchemeFromHeaders(only(trustedProxies)...)
}

// only makes echo trust these proxies. It would trust private networks by itself.
func only(proxies []netip.Prefix) []echo.TrustOption {
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range proxies {
		p = p.Masked()
		options = append(options, echo.TrustIPRange(&net.IPNet{
			IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
		}))
	}
	return options
}

// ClientAddress is what limits by address are kept by: the IPv4 address that a
// request comes from, or the IPv6 network of 64 bits, since that is the least that
// one client is given.
func ClientAddress(c echo.Context) string {
	text := c.RealIP()
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}
