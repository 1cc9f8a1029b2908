//! The preset dictionary of SPDY/3 header compression: a fact of the protocol (SPDY Protocol Draft
//! 3, section 2.6.10.1).

/// Words that stand in it as strings in headers do: behind their length as a big-endian u32.
const WORDS: &str = "\
    options\nhead\npost\nput\ndelete\ntrace\naccept\naccept-charset\naccept-encoding\naccept-language\n\
    accept-ranges\nage\nallow\nauthorization\ncache-control\nconnection\ncontent-base\ncontent-encoding\n\
    content-language\ncontent-length\ncontent-location\ncontent-md5\ncontent-range\ncontent-type\ndate\n\
    etag\nexpect\nexpires\nfrom\nhost\nif-match\nif-modified-since\nif-none-match\nif-range\n\
    if-unmodified-since\nlast-modified\nlocation\nmax-forwards\npragma\nproxy-authenticate\n\
    proxy-authorization\nrange\nreferer\nretry-after\nserver\nte\ntrailer\ntransfer-encoding\nupgrade\n\
    user-agent\nvary\nvia\nwarning\nwww-authenticate\nmethod\nget\nstatus\n200 OK\nversion\nHTTP/1.1\n\
    url\npublic\nset-cookie\nkeep-alive\norigin\n\
";

/// The rest of it.
const REST: &str = "\
    100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Au\
    thoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidd\
    en404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr Ma\
    y Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,imag\
    e/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,publicpri\
    vatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.\
";

/// Adler-32 of it all, by which the compressed data names it.
pub(super) const ID: u32 = 0xe3c6_a7c2;

/// Bytes of it all.
pub(super) const BYTES: usize = 1423;

/// The dictionary.
pub(super) fn bytes() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BYTES);
    for word in WORDS.lines() {
        let length = u32::try_from(word.len()).expect("no word is long");
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(word.as_bytes());
    }
    bytes.extend_from_slice(REST.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dictionary_is_the_one_that_its_number_stands_for() {
        let bytes = bytes();
        let (mut low, mut high) = (1u32, 0u32);
        for byte in &bytes {
            low = (low + u32::from(*byte)) % 65521;
            high = (high + low) % 65521;
        }
        assert_eq!((bytes.len(), high << 16 | low), (BYTES, ID));
    }
}
