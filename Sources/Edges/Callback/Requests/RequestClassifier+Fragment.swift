import NIOHTTP1

extension RequestClassifier {
  /// Only the broker's own page sends a fragment (``FragmentPage``), which the browser confirms: a post of another page
  /// is refused before it is read.
  ///
  /// - Parameter url: the page's URL.
  func fragmentRuling(on head: HTTPRequestHead, from site: Paths.Site, url: String) -> RequestClassification {
    guard isOfOwnPage(head.headers, site) else { return .page(.posted) }
    guard Self.isForm(head.headers) else { return .page(.notFragment) }
    guard Self.length(head.headers) <= fragmentLimit else { return .page(.fragmentTooLong) }
    return .fragment(url: url)
  }

  /// Every browser names the origin of a page that posts by `fetch`; those with Fetch Metadata also say that it is ours.
  private func isOfOwnPage(_ headers: HTTPHeaders, _ site: Paths.Site) -> Bool {
    headers["Origin"].map { $0.lowercased() } == [site.origin.lowercased()]
      && headers["Sec-Fetch-Site"].allSatisfy { $0.lowercased() == "same-origin" }
  }
}
