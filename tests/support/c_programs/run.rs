// run PACKAGE < NUMBERS: runs a network of one float32 input by tvmbuild.h, and prints its outputs' numbers.
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::io::Read;

#[repr(C)]
struct Session {
    _private: [u8; 0],
}

#[repr(C)]
struct Array {
    data: *mut c_void,
    shape: *const i64,
    rank: usize,
    dtype: *const c_char,
}

#[repr(C)]
struct TensorInfo {
    size: usize,
    name: *const c_char,
    dtype: *const c_char,
    shape: *const i64,
    rank: usize,
    bytes: usize,
    counted: *const usize,
    counted_count: usize,
}

#[link(name = "tvmbuild")]
extern "C" {
    fn tvmbuild_abi() -> u32;
    fn tvmbuild_last_error() -> *const c_char;
    fn tvmbuild_load(paths: *const *const c_char, count: usize, options: *const c_void, session: *mut *mut Session)
        -> c_int;
    fn tvmbuild_describe(session: *mut Session, package: *mut *mut c_void) -> c_int;
    fn tvmbuild_package_input(package: *mut c_void, at: usize, info: *mut TensorInfo) -> c_int;
    fn tvmbuild_run(
        session: *mut Session,
        inputs: *const Array,
        input_count: usize,
        outputs: *mut *const Array,
        output_count: *mut usize,
    ) -> c_int;
    fn tvmbuild_close(handle: *mut c_void) -> c_int;
}

fn check(status: c_int) -> Result<(), String> {
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
        if tvmbuild_abi() != 1 {
            return Err("libtvmbuild has another ABI".into());
        }
        let path = CString::new(path).map_err(|error| error.to_string())?;
        let mut session = std::ptr::null_mut();
        check(tvmbuild_load(&path.as_ptr(), 1, std::ptr::null(), &mut session))?;
        let mut package = std::ptr::null_mut();
        check(tvmbuild_describe(session, &mut package))?;
        let mut info: TensorInfo = std::mem::zeroed();
        info.size = std::mem::size_of::<TensorInfo>();
        check(tvmbuild_package_input(package, 0, &mut info))?;
        if info.bytes != numbers.len() * 4 {
            return Err(format!("{} numbers for {} bytes", numbers.len(), info.bytes));
        }
        let input =
            Array { data: numbers.as_mut_ptr().cast(), shape: info.shape, rank: info.rank, dtype: info.dtype };
        let (mut outputs, mut count) = (std::ptr::null(), 0);
        check(tvmbuild_run(session, &input, 1, &mut outputs, &mut count))?;
        for output in std::slice::from_raw_parts(outputs, count) {
            let shape = std::slice::from_raw_parts(output.shape, output.rank);
            let length = shape.iter().product::<i64>() as usize;
            for number in std::slice::from_raw_parts(output.data as *const f32, length) {
                println!("{number}");
            }
        }
        check(tvmbuild_close(package))?;
        check(tvmbuild_close(session.cast()))
    }
}

fn main() {
    if let Err(message) = run() {
        eprintln!("error: {message}");
        std::process::exit(1);
    }
}
