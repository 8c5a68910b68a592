// run PACKAGE < NUMBERS: runs a network of one float32 input by tvmbuild.h, and prints its outputs'
// numbers. TVMBUILD_BINDINGS names the file that bindgen has made of the header.
use std::ffi::{CStr, CString};
use std::io::Read;

#[allow(dead_code, non_camel_case_types, non_upper_case_globals)]
mod c {
    include!(env!("TVMBUILD_BINDINGS"));
    #[link(name = "tvmbuild")]
    extern "C" {}
}
use c::*;

fn check(status: tvmbuild_status) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    let message = unsafe { CStr::from_ptr(tvmbuild_last_error()) };
    Err(message.to_string_lossy().into_owned())
}

fn run() -> Result<(), String> {
    let path = std::env::args().nth(1).ok_or("usage: run PACKAGE")?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| error.to_string())?;
    let mut numbers: Vec<f32> =
        text.split_whitespace().map(|word| word.parse()).collect::<Result<_, _>>().map_err(|_| "no number")?;
    unsafe {
        if tvmbuild_abi() != TVMBUILD_ABI {
            return Err("libtvmbuild has another ABI".into());
        }
        let path = CString::new(path).map_err(|error| error.to_string())?;
        let mut session = std::ptr::null_mut();
        check(tvmbuild_load(&path.as_ptr(), 1, std::ptr::null(), &mut session))?;
        let mut package = std::ptr::null_mut();
        check(tvmbuild_describe(session, &mut package))?;
        let mut info: tvmbuild_tensor_info = std::mem::zeroed();
        info.size = std::mem::size_of::<tvmbuild_tensor_info>();
        check(tvmbuild_package_input(package, 0, &mut info))?;
        if info.bytes != numbers.len() * 4 {
            return Err(format!("{} numbers for {} bytes", numbers.len(), info.bytes));
        }
        let input =
            tvmbuild_array { data: numbers.as_mut_ptr().cast(), shape: info.shape, rank: info.rank, dtype: info.dtype };
        let (mut outputs, mut count) = (std::ptr::null(), 0);
        check(tvmbuild_run(session, &input, 1, &mut outputs, &mut count))?;
        for output in std::slice::from_raw_parts(outputs, count) {
            let shape = std::slice::from_raw_parts(output.shape, output.rank);
            let length = shape.iter().product::<i64>() as usize;
            for number in std::slice::from_raw_parts(output.data as *const f32, length) {
                println!("{number}");
            }
        }
        check(tvmbuild_close(package.cast()))?;
        check(tvmbuild_close(session.cast()))
    }
}

fn main() {
    if let Err(message) = run() {
        eprintln!("error: {message}");
        std::process::exit(1);
    }
}
