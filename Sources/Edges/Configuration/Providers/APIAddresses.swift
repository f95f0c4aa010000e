import FoundationEssentials
import OAuth

/// The permitted destinations of authorised calls, as written, for every kind of provider.
struct APIAddresses {
  var base: String?
  var origins: [String] = []
}

extension APIAddresses {
  func baseURL(allowInsecureHTTP: Bool) -> URL? {
    base.flatMap { Endpoint.url($0, allowInsecureHTTP: allowInsecureHTTP) }
  }

  func originURLs(allowInsecureHTTP: Bool) -> [URL] {
    origins.compactMap { Endpoint.url($0, allowInsecureHTTP: allowInsecureHTTP) }
  }

  func check(_ section: NamedSection, allowInsecureHTTP: Bool, report: inout ConfigurationReport) {
    let all = (base.map { [("api_base", $0)] } ?? []) + origins.map { ("api_origins", $0) }
    for (key, text) in all {
      let url = Endpoint.url(text, allowInsecureHTTP: allowInsecureHTTP)
      let isWhole = key == "api_base" || (url.map { ["", "/"].contains($0.path) } ?? false)
      guard url == nil || text.contains("?") || !isWhole else { continue }
      let wanted = key == "api_base" ? "an https URL without user, query or fragment" : "https addresses without a path"
      report.problem(at: section, key, "must be \(wanted), not \(quoted(text))")
    }
  }
}
